import { afterEach, expect, test, vi } from 'vitest'

import { textOf } from './copy'

afterEach(() => vi.unstubAllGlobals())

function button(dataset: Record<string, string>): HTMLElement {
  return { dataset } as unknown as HTMLElement
}

test('the text of the button itself comes first, even when it is empty', () => {
  expect(textOf(button({ text: 'fw_1' }))).toBe('fw_1')
  expect(textOf(button({ text: '', from: 'code' }))).toBe('')
})

test('else it is what the named element shows, without the space around it', () => {
  vi.stubGlobal('document', {
    getElementById: (id: string) => (id === 'code' ? { textContent: '\n  curl -s\n' } : null),
  })
  expect(textOf(button({ from: 'code' }))).toBe('curl -s')
  expect(textOf(button({ from: 'nowhere' }))).toBe('')
})
