import { defineConfig } from 'vite'

// Django serves what is built below /static/ and finds it by the manifest. There is no development server: `make
// frontend` takes seconds.
export default defineConfig({
  base: '/static/',
  build: {
    manifest: 'manifest.json',
    outDir: 'dist',
    emptyOutDir: true,
    // A data: script or style would break the content security policy.
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 700, // kB; the charting library, loaded only by pages with a chart
    rollupOptions: { input: { main: 'src/main.ts' } },
  },
})
