// Sends a file in pieces after the core of the tus protocol: PATCH at an offset; when the line breaks, ask for the
// offset and go on there. The page's part (fields, progress bar) is islands/upload.ts.
import { CSRF_HEADER, csrfToken } from './csrf'

export interface Problem {
  id: string
  title: string
  remedy: string
  /** Both in the language of the page; the API itself speaks English. */
  told: string
  address?: string
}

export interface Upload {
  id: string
  address: string
  length_bytes: number
  offset_bytes: number
  version: string | null
}

export interface Answer {
  status: number
  offset: number | null
  body: unknown
}

/** One request. It rejects with `Broken` when no answer came, and with an AbortError when `signal` says so. */
export type Request = (
  method: string,
  address: string,
  options?: {
    json?: unknown
    piece?: Blob
    offset?: number
    sent?: (bytes: number) => void
    signal?: AbortSignal
  },
) => Promise<Answer>

export class Broken extends Error {}

/** The site refused: what it said is shown as it stands. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly problem: Problem,
  ) {
    super(problem.title)
  }
}

export interface Sending {
  request: Request
  chunkBytes: number
  signal: AbortSignal
  progress: (sentBytes: number) => void
  waiting: (seconds: number) => void
  sleep: (seconds: number, signal: AbortSignal) => Promise<void>
}

const LONGEST_WAIT_S = 30
const MOST_TRIES = 12
const LOCKED = 423
const CONFLICT = 409

/** Sends what is missing of `file`; answers the id of the version that it became. */
export async function send(file: Blob, upload: Upload, how: Sending): Promise<string> {
  let offset = upload.offset_bytes
  let failures = 0
  let version = upload.version
  while (version === null) {
    how.progress(offset)
    try {
      const piece = file.slice(offset, Math.min(offset + how.chunkBytes, file.size))
      const start = offset
      const answer = await how.request('PATCH', upload.address, {
        piece,
        offset,
        sent: (bytes) => how.progress(start + bytes),
        signal: how.signal,
      })
      if (answer.status === CONFLICT && isWrongOffset(answer)) {
        ;({ offset, version } = await standing(upload, how))
        failures += 1
        if (failures > MOST_TRIES) throw refusal(answer)
        continue
      }
      if (answer.status === LOCKED || answer.status >= 500) throw new Broken(String(answer.status))
      if (answer.status >= 400) throw refusal(answer)
      offset = answer.offset ?? offset + piece.size
      version = answer.status === 200 ? (answer.body as Upload).version : null
      failures = 0
    } catch (error) {
      if (!(error instanceof Broken)) throw error
      failures += 1
      if (failures > MOST_TRIES) throw error
      const seconds = Math.min(2 ** (failures - 1), LONGEST_WAIT_S)
      how.waiting(seconds)
      await how.sleep(seconds, how.signal)
      how.signal.throwIfAborted()
      ;({ offset, version } = await standingOr(upload, how, { offset, version }))
    }
  }
  how.progress(file.size)
  return version
}

/** Ends early when `signal` is aborted. */
export function sleep(seconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, seconds * 1000)
    signal.addEventListener('abort', done)
  })
}

/** Where the upload stands. Raises Refused when it is over, Broken when the site does not answer. */
async function standing(upload: Upload, how: Sending): Promise<{ offset: number; version: string | null }> {
  const answer = await how.request('GET', upload.address, { signal: how.signal })
  if (answer.status >= 500) throw new Broken(String(answer.status))
  if (answer.status >= 400) throw refusal(answer)
  const { offset_bytes: offset, version } = answer.body as Upload
  return { offset, version }
}

async function standingOr<T>(upload: Upload, how: Sending, known: T): Promise<T | Awaited<ReturnType<typeof standing>>> {
  try {
    return await standing(upload, how)
  } catch (error) {
    if (error instanceof Broken) return known // the next piece will fail too, and wait longer
    throw error
  }
}

function isWrongOffset(answer: Answer): boolean {
  return (answer.body as Partial<Problem> | null)?.id === 'registry:usage:wrong-offset'
}

export function refusal(answer: Answer): Refused {
  const said = (answer.body ?? {}) as Partial<Problem>
  const { id = '', title = String(answer.status), remedy = '' } = said
  const problem = { id, title, remedy, told: said.told ?? `${title} ${remedy}`.trim() }
  return new Refused(answer.status, said.address ? { ...problem, address: said.address } : problem)
}

/** XMLHttpRequest and not fetch: only it tells how much of a body has been sent. */
export const overHttp: Request = (method, address, options = {}) =>
  new Promise((resolve, reject) => {
    const { json, piece, offset, sent, signal } = options
    const request = new XMLHttpRequest()
    request.open(method, address)
    request.setRequestHeader('Accept', 'application/json')
    if (method !== 'GET') request.setRequestHeader(CSRF_HEADER, csrfToken())
    if (json !== undefined) request.setRequestHeader('Content-Type', 'application/json')
    if (piece) request.setRequestHeader('Content-Type', 'application/offset+octet-stream')
    if (offset !== undefined) request.setRequestHeader('Upload-Offset', String(offset))
    if (sent) request.upload.onprogress = (event) => sent(event.loaded)
    request.onload = () => resolve(answerOf(request))
    request.onerror = () => reject(new Broken('no answer'))
    request.ontimeout = request.onerror
    request.onabort = () => reject(new DOMException('cancelled', 'AbortError'))
    signal?.addEventListener('abort', () => request.abort(), { once: true })
    if (signal?.aborted) reject(new DOMException('cancelled', 'AbortError'))
    else request.send(piece ?? (json === undefined ? null : JSON.stringify(json)))
  })

function answerOf(request: XMLHttpRequest): Answer {
  const offset = request.getResponseHeader('Upload-Offset')
  return { status: request.status, offset: offset === null ? null : Number(offset), body: parsed(request.responseText) }
}

/** Null for what is no JSON: a proxy in between answers with a page of its own. */
function parsed(text: string): unknown {
  if (!text) return null
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
