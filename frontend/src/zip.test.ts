import { describe, expect, it } from 'vitest'

import { crc32, entryNames, zipped } from './zip'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

describe('zip', () => {
  it('knows the check value of CRC-32', () => {
    expect(crc32(bytes('123456789'))).toBe(0xcbf43926)
    expect(crc32(bytes('6789'), crc32(bytes('12345')))).toBe(0xcbf43926)
  })

  it('tells two files of one name apart', () => {
    expect(entryNames(['a.json', 'b.json', 'A.json'])).toEqual(['a.json', 'b.json', '1-A.json'])
  })

  it('stores its files as they are, and says where each begins', async () => {
    const files = [new File(['{"a": 1}'], 'rank0.json', { lastModified: 5 }), new File(['{}'], 'rank1.json', { lastModified: 9 })]
    const made = await zipped(files, 'traces.zip')
    const view = new DataView(await made.arrayBuffer())
    expect([made.name, made.lastModified, made.size]).toEqual(['traces.zip', 9, view.byteLength])
    // the end: 22 bytes, with the number of entries and the place of the directory
    const end = view.byteLength - 22
    expect([view.getUint32(end, true), view.getUint16(end + 10, true)]).toEqual([0x06054b50, 2])
    const directory = view.getUint32(end + 16, true)
    expect(directory).toBe(30 + 10 + 8 + 30 + 10 + 2)
    const second = view.getUint32(directory + 46 + 10 + 42, true)
    expect(second).toBe(30 + 10 + 8)
    expect(new TextDecoder().decode(new Uint8Array(view.buffer, second + 30 + 10, 2))).toBe('{}')
    expect(view.getUint32(second + 14, true)).toBe(crc32(bytes('{}')))
  })
})
