import { expect, test } from 'vitest'

import { mountIslands } from './islands'

function element(name: string): HTMLElement {
  return { dataset: { island: name } } as unknown as HTMLElement
}

function page(...elements: HTMLElement[]): ParentNode {
  return { querySelectorAll: () => elements } as unknown as ParentNode
}

function counting() {
  const mounted: HTMLElement[] = []
  const loaders = { './islands/clock.ts': async () => ({ mount: (e: HTMLElement) => void mounted.push(e) }) }
  return { mounted, loaders }
}

test('each island is mounted once, however often its page is looked at', async () => {
  const { mounted, loaders } = counting()
  const [one, two] = [element('clock'), element('clock')]
  await mountIslands(page(one), loaders)
  await mountIslands(page(one, two), loaders)
  expect(mounted).toEqual([one, two])
  expect(one.dataset.mounted).toBe('')
})

test('an island that htmx puts in by itself is mounted too', async () => {
  const { mounted, loaders } = counting()
  const root = Object.assign(element('clock'), { querySelectorAll: () => [], matches: () => true })
  await mountIslands(root as unknown as Element, loaders)
  expect(mounted).toEqual([root])
})

test('a name that no file has is an error that says the name', async () => {
  const { loaders } = counting()
  await expect(mountIslands(page(element('clokc')), loaders)).rejects.toThrow('no island called clokc')
})
