// A button that copies text: `data-text` itself, or the content of the element whose id is in `data-from`.
// `data-done` is what it says afterwards, for two seconds.
const SHOWN_MS = 2000

export function textOf(element: HTMLElement): string {
  if (element.dataset.text !== undefined) return element.dataset.text
  const source = document.getElementById(element.dataset.from ?? '')
  return source?.textContent?.trim() ?? ''
}

export function mount(element: HTMLElement): void {
  const label = element.textContent ?? ''
  element.hidden = false // without JavaScript there is no button at all
  element.addEventListener('click', () => {
    void copy(textOf(element)).then((copied) => {
      if (!copied) return
      element.textContent = element.dataset.done ?? label
      window.setTimeout(() => (element.textContent = label), SHOWN_MS)
    })
  })
}

/** The clipboard's interface exists only on HTTPS and on this machine; elsewhere a selected field does it. */
async function copy(text: string): Promise<boolean> {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text)
    return true
  }
  const field = document.createElement('textarea')
  field.value = text
  field.className = 'visually-hidden'
  document.body.append(field)
  field.select()
  const copied = document.execCommand('copy')
  field.remove()
  return copied
}
