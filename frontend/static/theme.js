// Runs before the page is painted, so that a dark page does not flash white. The switch itself is in src/theme.ts.
(function () {
  var stored = null
  try {
    stored = localStorage.getItem('fuseworks-theme')
  } catch (error) {
    // storage is forbidden in this browser: the system's own theme holds
  }
  var dark = window.matchMedia('(prefers-color-scheme: dark)').matches
  document.documentElement.dataset.bsTheme = stored === 'light' || stored === 'dark' ? stored : dark ? 'dark' : 'light'
})()
