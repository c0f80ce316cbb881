// The distribution of single calls: for each contender the share of calls that took at most so many milliseconds.
import type { EChartsCoreOption } from 'echarts/core'

import { draw, grid, logAxis, tooltip, type Palette } from '../charts'
import { islandData } from '../islands'

const LEGEND_ROW_PX = 20
const PLOT_PX = 280

export interface Curve {
  label: string
  points: [number, number][]
}

/** Ends of the time axis: all of the fastest, and the slowest per mille left out, which would flatten the rest. */
export function ends(curves: Curve[]): [number, number] {
  const low = Math.min(...curves.map((curve) => curve.points[0]![0]))
  const high = Math.max(...curves.map((curve) => below(curve, 0.999)))
  return [low / 1.02, high * 1.02]
}

/** The time below which at most `share` of the calls lie; the slowest when there are few. */
function below(curve: Curve, share: number): number {
  const inside = curve.points.filter(([, upTo]) => upTo <= share)
  return (inside.at(-1) ?? curve.points.at(-1)!)[0]
}

export function option(curves: Curve[], words: { time: string; share: string }, colours: Palette): EChartsCoreOption {
  const [min, max] = ends(curves)
  const axis = { axisLabel: { color: colours.soft }, nameTextStyle: { color: colours.soft } }
  return {
    color: colours.series,
    legend: { top: 0, left: 0, orient: 'vertical', itemGap: 4, textStyle: { color: colours.text } },
    grid: { left: 56, right: 24, top: LEGEND_ROW_PX * curves.length + 36, bottom: 44 },
    tooltip: { ...tooltip(colours), trigger: 'item', formatter: ({ seriesName, value }: Point) => `${seriesName}\n${value[0]} ms: ${(100 * value[1]).toFixed(1)} %` },
    xAxis: { ...logAxis(min, max, '', colours), name: words.time, nameLocation: 'middle', nameGap: 28, nameTextStyle: axis.nameTextStyle },
    yAxis: { type: 'value', min: 0, max: 1, name: words.share, ...axis, axisLabel: { ...axis.axisLabel, formatter: (share: number) => `${Math.round(100 * share)} %` }, splitLine: { lineStyle: { color: colours.line } } },
    series: curves.map((curve, index) => ({
      name: curve.label,
      type: 'line',
      step: 'end',
      symbolSize: 4,
      showSymbol: false,
      data: curve.points,
      lineStyle: { width: 2 },
      markLine: index === 0 ? { silent: true, symbol: 'none', z: 0, data: grid(min, max, colours) } : undefined,
    })),
  }
}

interface Point {
  seriesName: string
  value: [number, number]
}

export function mount(element: HTMLElement): void {
  const curves = islandData<Curve[]>(element)
  // set by script, which the security policy allows; an attribute in the page it would not
  element.style.height = `${PLOT_PX + LEGEND_ROW_PX * curves.length}px`
  const words = { time: element.dataset.time ?? '', share: element.dataset.share ?? '' }
  draw(element, (colours) => option(curves, words, colours))
}
