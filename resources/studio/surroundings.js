/** What a page can learn of the conditions it runs under. */

/**
 * `on_battery` is null where the browser does not tell.
 * @typedef {{hidden: boolean, on_battery: boolean | null}} Surroundings
 */
/** @typedef {{charging: boolean}} Battery part of the Battery Status API, which Chromium has */

/**
 * @param {{visibilityState: string}} [page]
 * @param {{getBattery?: () => Promise<Battery>}} [browser]
 * @returns {() => Surroundings} as they are when it is called
 */
export function watchSurroundings(page = document, browser = /** @type {any} */ (navigator)) {
  /** @type {Battery | null} */
  let battery = null;
  browser.getBattery?.().then(
    (found) => (battery = found),
    () => {}, // a policy may forbid it: then it is unknown, as without the interface
  );
  return () => ({ hidden: page.visibilityState === "hidden", on_battery: battery && !battery.charging });
}
