// The switch between light, dark and the system's own. static/theme.js, which runs before the page is painted, applies
// what was chosen; this adds the buttons and follows the system while "auto" is on.
export type Choice = 'light' | 'dark' | 'auto'

const KEY = 'fuseworks-theme'

export function chosen(stored: string | null): Choice {
  return stored === 'light' || stored === 'dark' ? stored : 'auto'
}

export function resolve(choice: Choice, systemIsDark: boolean): 'light' | 'dark' {
  return choice === 'auto' ? (systemIsDark ? 'dark' : 'light') : choice
}

// A browser that forbids storage keeps the choice for this page only.
let unstored: string | null = null

function remembered(): string | null {
  try {
    return localStorage.getItem(KEY) ?? unstored
  } catch {
    return unstored
  }
}

function remember(choice: Choice): void {
  unstored = choice
  try {
    localStorage.setItem(KEY, choice)
  } catch {
    // as above
  }
}

export function startTheme(): void {
  const system = window.matchMedia('(prefers-color-scheme: dark)')
  const buttons = [...document.querySelectorAll<HTMLButtonElement>('[data-theme-choice]')]

  const show = (): void => {
    const choice = chosen(remembered())
    const theme = resolve(choice, system.matches)
    const root = document.documentElement
    if (root.dataset.bsTheme !== theme) {
      root.dataset.bsTheme = theme
      // Charts are drawn in colours, not in variables: they draw themselves anew.
      document.dispatchEvent(new CustomEvent('fuseworks:theme', { detail: { theme } }))
    }
    for (const button of buttons) button.setAttribute('aria-pressed', String(button.dataset.themeChoice === choice))
  }

  for (const button of buttons) {
    button.addEventListener('click', () => {
      remember(chosen(button.dataset.themeChoice ?? null))
      show()
    })
  }
  system.addEventListener('change', show)
  window.addEventListener('storage', show) // another tab chose
  show()
}
