// Several files as one zip that stores them uncompressed: traces of many ranks are sent as one upload. The zip is made of
// the files themselves, by reference; only their checksums are read. No ZIP64: nothing above 4 GiB.

export class TooLarge extends Error {}

const MOST_BYTES = 2 ** 32 - 1
const LOCAL = 0x04034b50
const CENTRAL = 0x02014b50
const END = 0x06054b50
const VERSION = 20
const NAMES_ARE_UTF8 = 1 << 11
const FIRST_DAY = 33 // 1980-01-01: the same files make the same bytes, so that a broken upload is gone on with

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1
  return value >>> 0
})

export function crc32(bytes: Uint8Array, before = 0): number {
  let value = ~before >>> 0
  for (const byte of bytes) value = (TABLE[(value ^ byte) & 0xff]! ^ (value >>> 8)) >>> 0
  return ~value >>> 0
}

/** Each name once: two of one name (out of two folders) are told apart by a number. */
export function entryNames(names: string[]): string[] {
  const seen = new Map<string, number>()
  return names.map((name) => {
    const count = seen.get(name.toLowerCase()) ?? 0
    seen.set(name.toLowerCase(), count + 1)
    return count ? `${count}-${name}` : name
  })
}

/** Raises TooLarge. `reading` hears which file is at work. */
export async function zipped(files: File[], name: string, reading: (file: string) => void = () => {}): Promise<File> {
  if (files.reduce((sum, file) => sum + file.size + 1024, 0) > MOST_BYTES) throw new TooLarge()
  const parts: BlobPart[] = []
  const directory: Uint8Array<ArrayBuffer>[] = []
  let offset = 0
  const names = entryNames(files.map((file) => file.name))
  for (const [index, file] of files.entries()) {
    reading(file.name)
    const entry = { name: new TextEncoder().encode(names[index]), crc: await crcOf(file), size: file.size, offset }
    const header = localHeader(entry)
    parts.push(header, file)
    directory.push(centralHeader(entry))
    offset += header.length + file.size
  }
  const length = directory.reduce((sum, header) => sum + header.length, 0)
  const lastModified = Math.max(...files.map((file) => file.lastModified))
  return new File([...parts, ...directory, end(files.length, length, offset)], name, { lastModified })
}

interface Entry {
  name: Uint8Array
  crc: number
  size: number
  offset: number
}

async function crcOf(file: File): Promise<number> {
  const reader = file.stream().getReader()
  let crc = 0
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return crc
    crc = crc32(value, crc)
  }
}

function localHeader({ name, crc, size }: Entry): Uint8Array<ArrayBuffer> {
  const head = fields([[4, LOCAL], [2, VERSION], ...common(crc, size, name.length), [2, 0]])
  return joined(head, name)
}

function centralHeader({ name, crc, size, offset }: Entry): Uint8Array<ArrayBuffer> {
  const nothing: [number, number][] = [[2, 0], [2, 0], [2, 0], [2, 0], [4, 0]] // extra, comment, disk, attributes twice
  const head = fields([[4, CENTRAL], [2, VERSION], [2, VERSION], ...common(crc, size, name.length), ...nothing, [4, offset]])
  return joined(head, name)
}

/** Flags, method (stored), time and day, checksum, both sizes, the length of the name. */
function common(crc: number, size: number, nameLength: number): [number, number][] {
  return [[2, NAMES_ARE_UTF8], [2, 0], [2, 0], [2, FIRST_DAY], [4, crc], [4, size], [4, size], [2, nameLength]]
}

function end(count: number, length: number, offset: number): Uint8Array<ArrayBuffer> {
  return fields([[4, END], [2, 0], [2, 0], [2, count], [2, count], [4, length], [4, offset], [2, 0]])
}

/** Little-endian numbers, each of so many bytes. */
function fields(values: [number, number][]): Uint8Array<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(values.reduce((sum, [bytes]) => sum + bytes, 0)))
  let at = 0
  for (const [bytes, value] of values) {
    if (bytes === 2) view.setUint16(at, value, true)
    else view.setUint32(at, value, true)
    at += bytes
  }
  return new Uint8Array(view.buffer)
}

function joined(head: Uint8Array, tail: Uint8Array): Uint8Array<ArrayBuffer> {
  const both = new Uint8Array(head.length + tail.length)
  both.set(head)
  both.set(tail, head.length)
  return both
}
