// htmx: live parts of pages. Its settings stand in base.html (`htmx-config`): no eval, no inline styles, no requests to
// other sites, and no copies of pages in the browser's storage, which would outlive signing out.
import htmx from 'htmx.org'

import { CSRF_HEADER, csrfToken } from './csrf'
import { mountIslands } from './islands'

const OFFLINE = 'offline'

export function startHtmx(): void {
  document.addEventListener('htmx:configRequest', (event) => {
    const detail = (event as CustomEvent).detail as { verb: string; headers: Record<string, string> }
    if (detail.verb !== 'get') detail.headers[CSRF_HEADER] = csrfToken()
  })
  document.addEventListener('htmx:sendError', () => showOffline(true))
  document.addEventListener('htmx:responseError', () => showOffline(true))
  document.addEventListener('htmx:afterOnLoad', (event) => {
    const { xhr } = (event as CustomEvent).detail as { xhr: { status: number } }
    if (xhr.status < 400) showOffline(false) // htmx tells it of every answer, the refusals too
  })
  // Called for the page itself and for each piece that htmx puts into it.
  htmx.onLoad((element) => mountIslands(element as Element))
}

/** Live parts go on asking; until the site answers again, the page says that it is out of date. */
function showOffline(offline: boolean): void {
  const notice = document.getElementById(OFFLINE)
  if (notice) notice.hidden = !offline
}
