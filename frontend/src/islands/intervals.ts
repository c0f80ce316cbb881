// Intervals of ratios on a logarithmic axis, with a line at 1: right of it is faster, or a step that pays.
// `data-bars` draws a bar from 1 to each middle as well.
import type { CustomSeriesRenderItemAPI, CustomSeriesRenderItemParams } from 'echarts'
import type { EChartsCoreOption } from 'echarts/core'

import { draw, grid, logAxis, tooltip, type Palette } from '../charts'
import { islandData } from '../islands'

export interface Bar {
  label: string
  low: number
  middle: number
  high: number
  tone: string
}

const ROW_PX = 40
const LABEL_PX = 300

export function ends(bars: Bar[]): [number, number] {
  return [Math.min(0.95, ...bars.map((bar) => bar.low)) / 1.05, Math.max(1.05, ...bars.map((bar) => bar.high)) * 1.05]
}

export function colour(tone: string, colours: Palette): string {
  return tone === 'faster' ? colours.good : tone === 'slower' ? colours.bad : colours.plain
}

export const inWords = (bar: Bar): string =>
  `${bar.label}\n${bar.middle.toFixed(2)}× [${bar.low.toFixed(2)}, ${bar.high.toFixed(2)}]`

export function option(bars: Bar[], one: string, withBars: boolean, colours: Palette): EChartsCoreOption {
  const [min, max] = ends(bars)
  return {
    grid: { left: 8, right: 40, top: 24, bottom: 28, containLabel: true },
    tooltip: { ...tooltip(colours), formatter: ({ dataIndex }: { dataIndex: number }) => inWords(bars[dataIndex]!) },
    xAxis: logAxis(min, max, '×', colours),
    yAxis: { type: 'category', inverse: true, data: bars.map((bar) => bar.label), axisLabel: { color: colours.text, width: LABEL_PX, overflow: 'break' }, axisTick: { show: false } },
    series: [
      {
        type: 'custom',
        data: bars.map((bar, index) => [bar.low, index, bar.middle, bar.high]),
        encode: { x: [0, 2, 3], y: 1 },
        renderItem: (_params: CustomSeriesRenderItemParams, api: CustomSeriesRenderItemAPI) => item(api, bars, withBars, colours),
        markLine: {
          silent: true,
          z: 0,
          symbol: 'none',
          data: [
            ...grid(min, max, colours),
            { xAxis: 1, lineStyle: { color: colours.soft, type: 'dashed', width: 2 }, label: { formatter: one, color: colours.soft, position: 'start' } },
          ],
        },
      },
    ],
  }
}

/** A line from end to end and a dot at the middle; its colour is the verdict's. */
function item(api: CustomSeriesRenderItemAPI, bars: Bar[], withBars: boolean, colours: Palette): object {
  const index = Number(api.value(1))
  const at = (value: number): [number, number] => api.coord([value, index]) as [number, number]
  const [left, y] = at(Number(api.value(0)))
  const [middle] = at(Number(api.value(2)))
  const [right] = at(Number(api.value(3)))
  const [zero] = at(1)
  const fill = colour(bars[index]!.tone, colours)
  const bar = { type: 'rect', shape: { x: Math.min(zero, middle), y: y - 9, width: Math.abs(middle - zero), height: 18 }, style: { fill, opacity: 0.25 } }
  return {
    type: 'group',
    children: [
      // what the pointer may touch: a line of three pixels is hard to hit
      { type: 'rect', shape: { x: left - 8, y: y - 14, width: right - left + 16, height: 28 }, style: { fill: 'transparent' } },
      ...(withBars ? [bar] : []),
      { type: 'line', shape: { x1: left, y1: y, x2: right, y2: y }, style: { stroke: fill, lineWidth: 3 } },
      { type: 'circle', shape: { cx: middle, cy: y, r: 5 }, style: { fill } },
    ],
  }
}

export function mount(element: HTMLElement): void {
  const bars = islandData<Bar[]>(element)
  // set by script, which the security policy allows; an attribute in the page it would not
  element.style.height = `${ROW_PX * bars.length + 56}px`
  draw(element, (colours) => option(bars, element.dataset.one ?? '', element.dataset.bars !== undefined, colours))
}
