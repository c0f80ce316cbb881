// The token that Django wants with every request that changes something. Islands that call `fetch` use it too.
export const CSRF_HEADER = 'X-CSRFToken'

export function csrfToken(): string {
  return document.querySelector<HTMLMetaElement>('meta[name="csrf-token"]')?.content ?? ''
}
