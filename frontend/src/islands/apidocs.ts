// The API's reference, drawn by Swagger UI out of the sidecar package's static files: `data-script`, `data-style`,
// `data-schema`. "Try it out" speaks with the reader's own session.
import { CSRF_HEADER, csrfToken } from '../csrf'

interface SwaggerRequest {
  headers: Record<string, string>
}

interface SwaggerSettings {
  domNode: HTMLElement
  url: string
  docExpansion: 'list' | 'none'
  deepLinking: boolean
  defaultModelsExpandDepth: number
  validatorUrl: null
  requestInterceptor(request: SwaggerRequest): SwaggerRequest
}

declare global {
  interface Window {
    SwaggerUIBundle?: (settings: SwaggerSettings) => unknown
  }
}

export async function mount(element: HTMLElement): Promise<void> {
  const { script, style, schema } = element.dataset
  if (!script || !style || !schema) throw new Error('the page does not say where Swagger UI is')
  const link = document.createElement('link')
  link.rel = 'stylesheet'
  link.href = style
  document.head.append(link)
  await load(script)
  if (!window.SwaggerUIBundle) throw new Error('Swagger UI did not load')
  element.replaceChildren()
  window.SwaggerUIBundle({
    domNode: element,
    url: schema,
    docExpansion: 'list',
    deepLinking: true,
    defaultModelsExpandDepth: 0, // schemas are listed, closed
    validatorUrl: null, // its default asks a server on the internet
    requestInterceptor(request) {
      request.headers[CSRF_HEADER] = csrfToken()
      return request
    },
  })
}

function load(address: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const script = document.createElement('script')
    script.src = address
    script.addEventListener('load', () => resolve())
    script.addEventListener('error', () => reject(new Error(`${address} did not load`)))
    document.head.append(script)
  })
}
