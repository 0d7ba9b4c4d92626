/** A bundle that is at hand: files that somebody dropped on the page or unpacked. */

/** Contents by their name in the bundle. @typedef {Record<string, Blob | BufferSource>} Files */

/** No request goes to it: a name for files at hand. */
export const FILES = "https://files.invalid/";

/**
 * A `fetch` for them.
 * @param {URL} base address of the manifest
 * @param {Files} files
 * @returns {(url: URL) => Promise<Response>}
 */
export const filesFetch = (base, files) => async (url) => {
  const name = decodeURIComponent(url.href.slice(new URL(".", base).href.length));
  return Object.hasOwn(files, name) ? new Response(files[name]) : new Response(null, { status: 404 });
};
