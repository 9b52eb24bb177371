/** The folder above `src` in a checkout, and above `dist` in the package and in the image. */
export const ROOT = new URL('..', import.meta.url);
