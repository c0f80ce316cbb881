import { expect, test } from 'vitest'

import { palette } from '../charts'
import { ends, option, type Curve } from './ecdf'

const light = { dataset: { bsTheme: 'light' } } as unknown as HTMLElement

const curve = (points: [number, number][]): Curve => ({ label: 'eager (4 calls)', points })

test('the axis leaves a margin of two per cent at both ends', () => {
  expect(ends([curve([[10, 0.5], [20, 0.75], [40, 0.9]])])).toEqual([10 / 1.02, 40 * 1.02])
})

test('the slowest call of a thousand does not flatten the rest', () => {
  const points = Array.from({ length: 1000 }, (_, i): [number, number] => [i < 999 ? 10 + i / 1000 : 900, (i + 1) / 1000])
  expect(ends([curve(points)])[1]).toBeCloseTo(10.998 * 1.02, 6)
})

test('one curve of a single call still has an axis', () => {
  const [low, high] = ends([curve([[5, 1]])])
  expect(low).toBeLessThan(5)
  expect(high).toBeGreaterThan(5)
})

test('every contender is a series of its own, and no tooltip is markup', () => {
  const drawn = option([curve([[1, 1]]), curve([[2, 1]])], { time: 'ms', share: 'share' }, palette(light)) as {
    series: unknown[]
    tooltip: { renderMode: string }
  }
  expect(drawn.series).toHaveLength(2)
  expect(drawn.tooltip.renderMode).toBe('richText')
})
