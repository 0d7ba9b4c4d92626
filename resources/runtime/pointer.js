/** The address of a model, as the bytes of its file for libraries that give a runtime bytes. */
const MARK = "nnjit-bundle of ";

/** @param {string} address */
export const pointerTo = (address) => new TextEncoder().encode(MARK + address);

/**
 * @param {Uint8Array} bytes of a model's file
 * @returns {string | null} the address in them; null for any other file
 */
export function addressIn(bytes) {
  if (bytes.length > 4096) return null; // longer than any address
  const text = new TextDecoder().decode(bytes);
  return text.startsWith(MARK) ? text.slice(MARK.length) : null;
}
