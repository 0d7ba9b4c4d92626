/**
 * With linear interpolation, as NumPy does by default.
 * @param {number[]} values at least one
 * @param {number} share 0.5 for the median
 */
export function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  const place = (sorted.length - 1) * share;
  const low = Math.floor(place);
  return sorted[low] + (place - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
}

/** @param {number[]} values at least one */
export const median = (values) => quantile(values, 0.5);
