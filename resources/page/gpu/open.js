/** Opens a GPU device of either implementation. */
import { openBridge } from "./bridge.js";
import { GpuError } from "./errors.js";
import { openNative } from "./native.js";

/**
 * @param {import("./types.js").GpuSource} source
 * @returns {Promise<import("./types.js").GpuDevice>} rejects with a GpuError "gpu-unavailable"
 */
export async function openGpu({ implementation, bridge }) {
  if (implementation === "navigator") return openNative();
  if (bridge) return openBridge(bridge);
  throw new GpuError("gpu-unavailable", "This page has no bridge to a GPU.", "Open the page from the Studio.");
}
