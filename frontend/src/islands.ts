// Islands: `<div data-island="ecdf">` is mounted by islands/ecdf.ts, loaded only by pages that have one.
export interface Island {
  mount(element: HTMLElement): void | Promise<void>
}

type Loader = () => Promise<Island>

const found = import.meta.glob<Island>(['./islands/*.ts', '!./islands/*.test.ts'])
const mounted = new WeakSet<HTMLElement>()

/** Mounts what `root` is or contains and was not mounted yet. An unknown name is a mistake of the page: it throws. */
export async function mountIslands(
  root: ParentNode & { matches?(selector: string): boolean },
  loaders: Record<string, Loader> = found,
): Promise<void> {
  const elements = [...root.querySelectorAll<HTMLElement>('[data-island]')]
  if (root.matches?.('[data-island]')) elements.unshift(root as unknown as HTMLElement)
  await Promise.all(elements.map((element) => mountOne(element, loaders)))
}

async function mountOne(element: HTMLElement, loaders: Record<string, Loader>): Promise<void> {
  if (mounted.has(element)) return
  mounted.add(element)
  const name = element.dataset.island ?? ''
  const load = loaders[`./islands/${name}.ts`]
  if (!load) throw new Error(`there is no island called ${name}`)
  const island = await load()
  await island.mount(element)
  element.dataset.mounted = ''
}

/** The data that a template left with `json_script`, by the id in the island's `data-source`. */
export function islandData<T>(element: HTMLElement): T {
  const id = element.dataset.source ?? ''
  const script = document.getElementById(id)
  if (!script?.textContent) throw new Error(`the island ${element.dataset.island} has no data called ${id}`)
  return JSON.parse(script.textContent) as T
}
