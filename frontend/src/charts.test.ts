import { expect, test } from 'vitest'

import { palette, ticks } from './charts'

test('ticks are round numbers within the axis', () => {
  expect(ticks(0.9, 4.2)).toEqual([1, 1.1, 1.2, 1.5, 2, 3])
  expect(ticks(2.7, 32)).toEqual([5, 10, 20]) // the finer steps would be nine
  expect(ticks(0.5, 3000)).toEqual([1, 10, 100, 1000])
})

test('an axis between two round numbers still has ticks', () => {
  expect(ticks(5.1, 5.4)).toEqual([5.1, 5.25, 5.4])
})

test('both themes have a colour for every series', () => {
  const themes = ['light', 'dark'].map((bsTheme) => palette({ dataset: { bsTheme } } as unknown as HTMLElement))
  expect(themes.map((theme) => new Set(theme.series).size)).toEqual([8, 8])
})
