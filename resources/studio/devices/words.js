/** What the device's page says, in words. */

/** What the Studio tells of the work. @typedef {{model: string, kernel: string, gflops: number, rate: number | null, warning: string, left_s: number | null, done: boolean}} Told */
/** What the device tells of itself. @typedef {{hidden: boolean, battery: number | null, charging: boolean | null, cores: number | null, memory_gb: number | null}} DeviceState */

const SLOW = 0.92;

/** @param {Told} told */
export const rateText = ({ rate }) =>
  rate === null ? "not known yet" : rate >= SLOW ? `${percent(rate)} of the first` : `${percent(rate)} of the first: warm`;

/** @param {DeviceState} state */
export const batteryText = ({ battery, charging }) =>
  battery === null ? "this browser does not tell" : `${percent(battery)}${charging ? ", charging" : ""}`;

/** @param {Told} told */
export function leftText({ left_s, done }) {
  if (done) return "done";
  if (left_s === null) return "not known yet";
  return left_s < 60 ? `${Math.ceil(left_s)} s` : `${Math.ceil(left_s / 60)} min`;
}

/** @param {number} count */
export const measuredText = (count) => `${count} ${count === 1 ? "kernel" : "kernels"}`;

/** @param {number} share */
const percent = (share) => `${Math.round(share * 100)} %`;
