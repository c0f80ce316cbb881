// The upload page's form, sent in resumable pieces: drag and drop, progress, cancel, and going on where a broken
// connection or a closed page left off. Without JavaScript the same form is sent whole.
import { islandData } from '../islands'
import { Broken, overHttp, Refused, refusal, send, sleep, type Request, type Upload } from '../resumable'
import { TooLarge, zipped } from '../zip'

interface Settings {
  uploads: string
  version: string
  accepted: string[]
  foreign: Record<string, string>
  chunkBytes: number
  /** Of what the new model is: sent when the upload begins. */
  kind?: string
  /** What several files are zipped as; without it the form takes one file. */
  zip?: string
  words: Partial<Record<'zipping' | 'tooLarge', string>> & Record<
    | 'refusedSuffix'
    | 'starting'
    | 'resuming'
    | 'sending'
    | 'waiting'
    | 'checking'
    | 'cancelled'
    | 'failed'
    | 'noFile'
    | 'noTeam'
    | 'noName',
    string
  >
}

interface Asked {
  file: File
  team: string
  model: string
  modelName: string
}

const NO_ID = '00000000-0000-0000-0000-000000000000'
const MEMORY = 'fuseworks-upload'
const HOVER = 'border-primary'
// Answers after which an upload cannot be gone on with: it is not there, over, or its content is refused. Any other
// refusal (signed out, too full for now) leaves it as it is.
const FINAL = [404, 410, 422]

export function mount(element: HTMLElement): void {
  new Page(element as HTMLFormElement, islandData<Settings>(element), overHttp).start()
}

class Page {
  private aborting = new AbortController()
  private current: Upload | null = null
  private isBusy = false
  private suggested = ''

  constructor(
    private readonly form: HTMLFormElement,
    private readonly settings: Settings,
    private readonly request: Request,
  ) {}

  start(): void {
    this.form.addEventListener('submit', (event) => {
      event.preventDefault()
      void this.submitted()
    })
    this.part('cancel').addEventListener('click', () => void this.cancel())
    this.fileField().addEventListener('change', () => this.suggestName())
    this.takeDrops(this.part('drop'))
  }

  /** The chosen file's name, for a new model that was not named by hand. */
  private suggestName(): void {
    const file = this.fileField().files?.[0]
    const name = this.form.querySelector<HTMLInputElement>('[name="model_name"]')!
    if (!file || this.field('model') || (name.value && name.value !== this.suggested)) return
    this.suggested = nameOf(file.name)
    name.value = this.suggested
  }

  private async submitted(): Promise<void> {
    if (this.isBusy) return
    this.say('')
    this.problem('')
    const files = this.chosen()
    if (files === null) return
    this.busy(true)
    this.aborting = new AbortController()
    let asked: Asked | null = null
    try {
      asked = await this.asked(files)
      if (asked === null) return
      const version = await this.upload(asked)
      forget(asked)
      window.location.assign(this.settings.version.replace(NO_ID, version))
    } catch (error) {
      this.ended(error, asked)
    } finally {
      this.busy(false)
    }
  }

  /** The chosen files, or null with what the form lacks shown. */
  private chosen(): File[] | null {
    const files = [...(this.fileField().files ?? [])]
    for (const file of files.length ? files : [undefined]) {
      const lack = missing(file?.name, this.fields(), this.settings)
      if (lack !== null) {
        this.problem(lack)
        return null
      }
    }
    return files
  }

  /** What the fields say, several files as one zip. */
  private async asked(files: File[]): Promise<Asked | null> {
    const { zip, words } = this.settings
    if (files.length === 1 || zip === undefined) return { file: files[0]!, ...this.fields() }
    try {
      const file = await zipped(files, zip, (name) => {
        this.aborting.signal.throwIfAborted()
        this.say(fill(words.zipping ?? '', { name }))
      })
      return { file, ...this.fields() }
    } catch (error) {
      if (!(error instanceof TooLarge)) throw error
      this.problem(words.tooLarge ?? '')
      return null
    }
  }

  private fields(): { team: string; model: string; modelName: string } {
    return { team: this.field('team'), model: this.field('model'), modelName: this.field('model_name').trim() }
  }

  private async upload(asked: Asked): Promise<string> {
    const { words, chunkBytes } = this.settings
    const { size } = asked.file
    this.current = (await this.resumed(asked)) ?? (await this.begun(asked))
    return send(asked.file, this.current, {
      request: this.request,
      chunkBytes,
      signal: this.aborting.signal,
      progress: (sent) => {
        this.bar(sent / size)
        this.say(sent >= size ? words.checking : fill(words.sending, { done: bytes(sent), total: bytes(size) }))
      },
      waiting: (seconds) => this.say(fill(words.waiting, { seconds: String(seconds) })),
      sleep,
    })
  }

  /** The upload of this very file that was begun before and is still open. */
  private async resumed(asked: Asked): Promise<Upload | null> {
    const id = remembered(asked)
    if (id === null) return null
    this.say(this.settings.words.resuming)
    const answer = await this.request('GET', `${this.settings.uploads}${id}/`, { signal: this.aborting.signal })
    if (answer.status === 200) return answer.body as Upload
    if (!FINAL.includes(answer.status)) throw refusal(answer)
    forget(asked)
    return null
  }

  private async begun(asked: Asked): Promise<Upload> {
    this.say(this.settings.words.starting)
    const { file, team, model, modelName } = asked
    const whose = model ? { model } : { team, model_name: modelName }
    const { kind } = this.settings
    const json = { ...whose, ...(kind ? { kind } : {}), filename: file.name, length_bytes: file.size }
    // Not aborted by a cancel: what it began could then not be ended, and would hold the team's quota.
    const answer = await this.request('POST', this.settings.uploads, { json })
    if (answer.status !== 201) throw refusal(answer)
    const upload = answer.body as Upload
    remember(asked, upload.id)
    if (this.aborting.signal.aborted) {
      this.current = upload
      await this.drop()
      this.aborting.signal.throwIfAborted()
    }
    return upload
  }

  /** `asked` null: it ended while the files were packed. */
  private ended(error: unknown, asked: Asked | null): void {
    this.say('')
    if (error instanceof DOMException && error.name === 'AbortError') {
      if (asked) forget(asked)
      this.say(this.settings.words.cancelled)
    } else if (error instanceof Refused) {
      if (asked && FINAL.includes(error.status)) forget(asked)
      this.problem(error.problem.told, error.problem.address)
    } else if (error instanceof Broken) {
      this.problem(this.settings.words.failed)
    } else {
      throw error
    }
  }

  private async cancel(): Promise<void> {
    this.aborting.abort()
    await this.drop()
  }

  private async drop(): Promise<void> {
    const dropped = this.current
    this.current = null
    if (dropped !== null) await this.request('DELETE', `${this.settings.uploads}${dropped.id}/`)
  }

  private takeDrops(zone: HTMLElement): void {
    zone.addEventListener('dragover', (event) => {
      event.preventDefault()
      zone.classList.add(HOVER)
    })
    zone.addEventListener('dragleave', () => zone.classList.remove(HOVER))
    zone.addEventListener('drop', (event) => {
      event.preventDefault()
      zone.classList.remove(HOVER)
      const files = event.dataTransfer?.files
      if (!files?.length || this.isBusy) return
      this.fileField().files = files
      this.suggestName() // a drop is no `change`
    })
  }

  private busy(isBusy: boolean): void {
    this.isBusy = isBusy
    this.part('cancel').hidden = !isBusy
    this.part('progress').hidden = false
    this.form.querySelector<HTMLButtonElement>('button:not([type="button"])')!.disabled = isBusy
    this.form.querySelectorAll<HTMLInputElement | HTMLSelectElement>('input, select').forEach((field) => {
      field.disabled = isBusy
    })
  }

  private bar(share: number): void {
    this.form.querySelector('progress')!.value = share
  }

  private say(text: string): void {
    this.part('state').textContent = text
  }

  private problem(text: string, address?: string): void {
    const place = this.part('problem')
    place.hidden = text === ''
    place.textContent = text
    if (address) {
      const link = document.createElement('a')
      link.href = address
      link.textContent = ` ${address}`
      place.append(link)
    }
  }

  private part(name: string): HTMLElement {
    return this.form.querySelector<HTMLElement>(`[data-part="${name}"]`)!
  }

  private field(name: string): string {
    return this.form.querySelector<HTMLInputElement | HTMLSelectElement>(`[name="${name}"]`)!.value
  }

  private fileField(): HTMLInputElement {
    return this.form.querySelector<HTMLInputElement>('input[type="file"]')!
  }
}

/** A file's name without its suffix: what a new model is called unless somebody names it. */
export function nameOf(filename: string): string {
  return filename.replace(/(.)(\.json\.gz|\.[^.]*)$/i, '$1').slice(0, 80)
}

/** What the form lacks, one thing at a time in the order of its fields, or why its file is refused; null: nothing. */
export function missing(
  filename: string | undefined,
  asked: { team: string; model: string; modelName: string },
  { accepted, foreign, words }: Pick<Settings, 'accepted' | 'foreign' | 'words'>,
): string | null {
  if (!asked.model && !asked.team) return words.noTeam
  if (filename === undefined) return words.noFile
  const name = filename.toLowerCase()
  if (!accepted.some((suffix) => name.endsWith(suffix))) {
    return foreign[name.slice(name.lastIndexOf('.'))] ?? `${words.refusedSuffix} ${accepted.join(' ')}`
  }
  return asked.model || asked.modelName ? null : words.noName
}

function fill(text: string, values: Record<string, string>): string {
  return Object.entries(values).reduce((filled, [name, value]) => filled.replace(`{${name}}`, value), text)
}

function bytes(count: number): string {
  return `${(count / (1 << 20)).toFixed(1)} MiB`
}

function key({ file, team, model, modelName }: Asked): string {
  return [MEMORY, team, model || modelName, file.name, file.size, file.lastModified].join('|')
}

function remember(asked: Asked, id: string): void {
  localStorage.setItem(key(asked), id)
}

function remembered(asked: Asked): string | null {
  return localStorage.getItem(key(asked))
}

function forget(asked: Asked): void {
  localStorage.removeItem(key(asked))
}
