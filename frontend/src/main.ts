// What every page loads: the look, menus, htmx, the theme, and the islands that the page has.
import '@tabler/core/dist/css/tabler.min.css'
import './app.css'
import '@tabler/core'

import { startHtmx } from './live'
import { startTheme } from './theme'

startTheme()
startHtmx()
