// What all charts share: ECharts with only the parts that we use, in the page's own colours, following its theme.
// Tooltips are drawn as text (`richText`): markup in one would carry inline styles, which the security policy forbids.
import { CustomChart, LineChart } from 'echarts/charts'
import { AriaComponent, GridComponent, LegendComponent, MarkLineComponent, TooltipComponent } from 'echarts/components'
import { init, use, type EChartsCoreOption } from 'echarts/core'
import { SVGRenderer } from 'echarts/renderers'

use([LineChart, CustomChart, GridComponent, TooltipComponent, LegendComponent, MarkLineComponent, AriaComponent, SVGRenderer])

const MAX_TICKS = 8

export interface Palette {
  text: string
  soft: string
  line: string
  good: string
  bad: string
  plain: string
  series: string[]
}

const LIGHT: Palette = {
  text: '#1f2937',
  soft: '#4b5563',
  line: '#d5dae1',
  good: '#18794e',
  bad: '#b42318',
  plain: '#3f5a8a',
  series: ['#56657f', '#0b72b9', '#18794e', '#b35900', '#8e3fa8', '#b42318', '#0f766e', '#92400e'],
}
const DARK: Palette = {
  text: '#e6eaf1',
  soft: '#a9b4c6',
  line: '#38414f',
  good: '#4cc38a',
  bad: '#ff8a80',
  plain: '#8fb4ef',
  series: ['#a3b1c9', '#58b2f0', '#4cc38a', '#f0a35a', '#cf94e4', '#ff8a80', '#5ecec2', '#e0b080'],
}

export function palette(root: HTMLElement = document.documentElement): Palette {
  return root.dataset.bsTheme === 'dark' ? DARK : LIGHT
}

export const tooltip = (colours: Palette) => ({
  renderMode: 'richText' as const,
  confine: true,
  textStyle: { color: colours.text },
  backgroundColor: colours === DARK ? '#232a35' : '#ffffff',
  borderColor: colours.line,
})

/** Round numbers from `low` to `high` for a logarithmic axis, at most eight; the ends and the middle when there are none. */
export function ticks(low: number, high: number): number[] {
  for (const steps of [[1, 1.1, 1.2, 1.5, 2, 3, 5, 7], [1, 2, 5], [1]]) {
    const found = [...powers(low, high)].flatMap((power) => steps.map((step) => Number((step * 10 ** power).toPrecision(6))))
    const inside = found.filter((tick) => low <= tick && tick <= high)
    if (inside.length >= 2 && inside.length <= MAX_TICKS) return inside
  }
  return [low, Math.sqrt(low * high), high].map((tick) => Number(tick.toPrecision(3)))
}

function* powers(low: number, high: number): Generator<number> {
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) yield power
}

/** A logarithmic axis of times or ratios with round numbers on it. ECharts itself would label powers of ten only. */
export function logAxis(min: number, max: number, unit: string, colours: Palette): object {
  const customValues = ticks(min, max)
  const label = { color: colours.soft, formatter: (value: number) => `${Number(value.toPrecision(3))}${unit}`, customValues }
  return { type: 'log', min, max, axisLabel: label, axisTick: { customValues }, splitLine: { show: false } }
}

/** Lines at the axis' round numbers, as data of a `markLine`. */
export const grid = (min: number, max: number, colours: Palette): object[] =>
  ticks(min, max).map((tick) => ({ xAxis: tick, label: { show: false }, lineStyle: { color: colours.line, type: 'solid', width: 1 } }))

/** Draws into `element`, again when the theme changes, and fits it to its size. */
export function draw(element: HTMLElement, option: (colours: Palette) => EChartsCoreOption): void {
  const chart = init(element, undefined, { renderer: 'svg' })
  // by name: ECharts measures texts on a canvas, which knows no `inherit`
  const fontFamily = getComputedStyle(element).fontFamily
  const redraw = (): void => {
    chart.setOption({ animation: false, backgroundColor: 'transparent', textStyle: { fontFamily }, ...option(palette()) }, true)
  }
  redraw()
  new MutationObserver(redraw).observe(document.documentElement, { attributes: true, attributeFilter: ['data-bs-theme'] })
  new ResizeObserver(() => chart.resize()).observe(element)
}
