import { describe, expect, it } from 'vitest'

import { type Answer, Broken, Refused, type Request, send, type Sending, sleep, type Upload } from './resumable'

const FILE = new Blob(['0123456789'])

function upload(offset = 0): Upload {
  return { id: 'u', address: '/uploads/u/', length_bytes: 10, offset_bytes: offset, version: null }
}

/** A site that keeps what it is sent; `script` replaces the answers of some PATCHes, in order. */
function site(script: (Answer | Broken | null)[] = [], kept = '') {
  const seen: { kept: string; asked: string[] } = { kept, asked: [] }
  const state = (): Upload => ({ ...upload(seen.kept.length), version: seen.kept.length === 10 ? 'v' : null })
  const request: Request = async (method, _address, options = {}) => {
    seen.asked.push(`${method}${options.offset === undefined ? '' : ` ${options.offset}`}`)
    if (method === 'GET') return { status: 200, offset: seen.kept.length, body: state() }
    const planned = script.shift() ?? null
    if (planned instanceof Broken) throw planned
    if (planned !== null) return planned
    seen.kept += await options.piece!.text()
    const done = seen.kept.length === 10
    return { status: done ? 200 : 204, offset: seen.kept.length, body: done ? state() : null }
  }
  return { seen, request }
}

function how(request: Request, more: Partial<Sending> = {}): Sending {
  const signal = new AbortController().signal
  return { request, chunkBytes: 4, signal, progress: () => {}, waiting: () => {}, sleep: async () => {}, ...more }
}

describe('send', () => {
  it('sends pieces in order and answers the version', async () => {
    const { seen, request } = site()
    expect(await send(FILE, upload(), how(request))).toBe('v')
    expect(seen).toEqual({ kept: '0123456789', asked: ['PATCH 0', 'PATCH 4', 'PATCH 8'] })
  })

  it('goes on where an upload of an earlier visit stands', async () => {
    const { seen, request } = site([], '012345')
    await send(FILE, upload(6), how(request))
    expect(seen).toEqual({ kept: '0123456789', asked: ['PATCH 6'] })
  })

  it('asks for the offset after the line broke, and waits longer each time', async () => {
    const { seen, request } = site([null, new Broken(), new Broken()])
    const waits: number[] = []
    await send(FILE, upload(), how(request, { waiting: (seconds) => waits.push(seconds) }))
    expect(waits).toEqual([1, 2])
    expect(seen.kept).toBe('0123456789')
    expect(seen.asked).toEqual(['PATCH 0', 'PATCH 4', 'GET', 'PATCH 4', 'GET', 'PATCH 4', 'PATCH 8'])
  })

  it('takes the offset of the site when its own is wrong', async () => {
    const wrong = { status: 409, offset: null, body: { id: 'registry:usage:wrong-offset' } }
    const { seen, request } = site([wrong], '0123')
    await send(FILE, upload(0), how(request))
    expect(seen).toEqual({ kept: '0123456789', asked: ['PATCH 0', 'GET', 'PATCH 4', 'PATCH 8'] })
  })

  it('gives up with what the site said', async () => {
    const body = { id: 'registry:user:foreign', title: 'This is a pickle.', remedy: 'Export it.', address: '/x/' }
    const { request } = site([{ status: 422, offset: null, body }])
    const refused = await send(FILE, upload(), how(request)).catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(Refused)
    expect((refused as Refused).problem).toEqual({ ...body, told: 'This is a pickle. Export it.' })
  })

  it('tells it in the language of the page where the site did', async () => {
    const body = { id: 'a:user:b', title: 'This is a pickle.', remedy: 'Export it.', told: '这是 pickle。' }
    const { request } = site([{ status: 422, offset: null, body }])
    const refused = await send(FILE, upload(), how(request)).catch((error: unknown) => error)
    expect((refused as Refused).problem).toEqual(body)
  })

  it('finishes an upload whose bytes are all there', async () => {
    const seen: string[] = []
    const request: Request = async (method, _address, options = {}) => {
      seen.push(`${method} ${options.offset} ${options.piece?.size}`)
      return { status: 200, offset: 10, body: { ...upload(10), version: 'v' } }
    }
    expect(await send(FILE, upload(10), how(request))).toBe('v')
    expect(seen).toEqual(['PATCH 10 0'])
  })

  it('stops trying after a while', async () => {
    const { request } = site(Array.from({ length: 50 }, () => new Broken('down')))
    await expect(send(FILE, upload(), how(request))).rejects.toBeInstanceOf(Broken)
  })
})

describe('a cancelled wait', () => {
  it('ends at once, and nothing more is sent', async () => {
    const cancel = new AbortController()
    const { seen, request } = site([new Broken('down')])
    const waiting = () => queueMicrotask(() => cancel.abort())
    const sent = send(FILE, upload(), how(request, { signal: cancel.signal, waiting, sleep: (_, signal) => sleep(3600, signal) }))
    await expect(sent).rejects.toThrow()
    expect(seen.asked).toEqual(['PATCH 0'])
  })

  it('is none when it was cancelled before', async () => {
    await sleep(3600, AbortSignal.abort())
  })
})
