/** Opens a GPU device of either implementation. */
import { GpuError } from "../../engine/gpu/errors.js";
import { openNative } from "../../engine/gpu/native/device.js";
import { openBridge } from "./bridge.js";

/** @import { GpuDevice, GpuSource } from "../../types/gpu.js" */

/**
 * @param {GpuSource} source
 * @returns {Promise<GpuDevice>} rejects with a GpuError "gpu-unavailable"
 */
export async function openGpu({ implementation, bridge }) {
  if (implementation === "navigator") return openNative();
  if (bridge) return openBridge(bridge);
  throw new GpuError("gpu-unavailable", "This page has no bridge to a GPU.", "Open the page from the Studio.");
}
