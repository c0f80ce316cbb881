import { expect, test } from 'vitest'

import { chosen, resolve } from './theme'

test('whatever is not light or dark follows the system', () => {
  expect([null, '', 'auto', 'purple', 'light', 'dark'].map(chosen)).toEqual([
    'auto',
    'auto',
    'auto',
    'auto',
    'light',
    'dark',
  ])
})

test('the system decides only while nothing was chosen', () => {
  expect([resolve('auto', true), resolve('auto', false)]).toEqual(['dark', 'light'])
  expect([resolve('light', true), resolve('dark', false)]).toEqual(['light', 'dark'])
})
