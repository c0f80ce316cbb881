import { afterAll, beforeAll, expect, test, vi } from 'vitest'

vi.mock('htmx.org', () => ({ default: { onLoad: () => undefined } }))
vi.mock('./islands', () => ({ mountIslands: () => undefined }))

const notice = { hidden: true }

class Page extends EventTarget {
  getElementById(): typeof notice {
    return notice
  }
}

/** As htmx tells of an answer: of a refusal first as an error, then like of any other. */
function answered(status: number): void {
  const detail = { xhr: { status } }
  if (status >= 400) document.dispatchEvent(new CustomEvent('htmx:responseError', { detail }))
  document.dispatchEvent(new CustomEvent('htmx:afterOnLoad', { detail }))
}

beforeAll(async () => {
  vi.stubGlobal('document', new Page())
  const { startHtmx } = await import('./live')
  startHtmx()
})
afterAll(() => vi.unstubAllGlobals())

test.each([404, 500, 502])('a live part that gets %i says that the page is out of date', (status) => {
  answered(status)
  expect(notice.hidden).toBe(false)
  answered(200)
  expect(notice.hidden).toBe(true)
})

test('no answer at all says so too, and the next one takes it back', () => {
  document.dispatchEvent(new CustomEvent('htmx:sendError', { detail: {} }))
  expect(notice.hidden).toBe(false)
  answered(286)
  expect(notice.hidden).toBe(true)
})
