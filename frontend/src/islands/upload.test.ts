import { expect, test } from 'vitest'

import { missing, nameOf } from './upload'

const settings = {
  accepted: ['.pt2', '.py'],
  foreign: { '.pkl': 'This is a pickle. Export it anew.' },
  words: {
    refusedSuffix: 'None of:',
    starting: '',
    resuming: '',
    sending: '',
    waiting: '',
    checking: '',
    cancelled: '',
    failed: '',
    noFile: 'No file',
    noTeam: 'No team',
    noName: 'No name',
  },
}
const asked = { team: 'ads-ranking', model: '', modelName: 'DIN' }

test('a new model is called like its file, without the last suffix', () => {
  expect(nameOf('din.pt2')).toBe('din')
  expect(nameOf('din.v2.pt2')).toBe('din.v2')
  expect(nameOf('din')).toBe('din')
  expect(nameOf('.pt2')).toBe('.pt2')
  expect(nameOf(`${'x'.repeat(90)}.py`)).toBe('x'.repeat(80))
})

test('the field that is missing is the one that is named', () => {
  expect(missing('din.py', { ...asked, team: '' }, settings)).toBe('No team')
  expect(missing(undefined, asked, settings)).toBe('No file')
  expect(missing('din.py', { ...asked, modelName: '' }, settings)).toBe('No name')
  expect(missing('din.py', asked, settings)).toBeNull()
})

test('a further version of a model needs neither team nor name', () => {
  expect(missing('din.py', { team: '', model: 'an id', modelName: '' }, settings)).toBeNull()
})

test('a format that is known is refused with the way to export it, another with what is taken', () => {
  expect(missing('DIN.PKL', { ...asked, modelName: '' }, settings)).toBe('This is a pickle. Export it anew.')
  expect(missing('din.exe', asked, settings)).toBe('None of: .pt2 .py')
  expect(missing('din', asked, settings)).toBe('None of: .pt2 .py')
})
