"""Other people's Wasm modules: inspected, made faster, exchanged while they run, offloaded."""
