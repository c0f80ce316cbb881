import { expect, test } from 'vitest'

import { palette } from '../charts'
import { colour, ends, inWords, option, type Bar } from './intervals'

const light = { dataset: { bsTheme: 'light' } } as unknown as HTMLElement

const bar: Bar = { label: 'pass fuse_attention', low: 1.52, middle: 2.02, high: 2.69, tone: 'faster' }

test('the axis always shows the line at 1 with room on both sides', () => {
  expect(ends([bar])).toEqual([0.95 / 1.05, 2.69 * 1.05])
  expect(ends([{ ...bar, low: 0.5, high: 0.6 }])).toEqual([0.5 / 1.05, 1.05 * 1.05])
})

test('a colour is a verdict, and what cannot be told has none of its own', () => {
  const colours = palette(light)
  expect(colour('faster', colours)).toBe(colours.good)
  expect(colour('slower', colours)).toBe(colours.bad)
  expect(colour('same', colours)).toBe(colours.plain)
  expect(colour('cannot_tell', colours)).toBe(colours.plain)
})

test('a tooltip gives the figure with its interval', () => {
  expect(inWords(bar)).toBe('pass fuse_attention\n2.02× [1.52, 2.69]')
})

test('there is one row for each bar', () => {
  const drawn = option([bar, bar, bar], 'no difference', true, palette(light)) as { yAxis: { data: string[] } }
  expect(drawn.yAxis.data).toHaveLength(3)
})
