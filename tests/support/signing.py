"""Ed25519 by libsodium and the bytes that a node signs (docs/node-protocol.md), for fake nodes and for
readings of a bill file that share no code with the product."""
import ctypes, ctypes.util, struct

sodium = ctypes.CDLL(ctypes.util.find_library("sodium") or "libsodium.so.23")
assert sodium.sodium_init() >= 0


class Key:
    """Of a 32-byte seed."""
    def __init__(self, seed):
        self.public, self.secret = ctypes.create_string_buffer(32), ctypes.create_string_buffer(64)
        assert len(seed) == 32 and sodium.crypto_sign_seed_keypair(self.public, self.secret, seed) == 0
        self.hex = self.public.raw.hex()

    def sign(self, data):
        sig = ctypes.create_string_buffer(64)
        assert sodium.crypto_sign_detached(sig, None, data, ctypes.c_ulonglong(len(data)), self.secret) == 0
        return sig.raw.hex()


def good(public_hex, data, sig_hex):
    try:
        public, sig = bytes.fromhex(public_hex), bytes.fromhex(sig_hex)
    except ValueError:
        return False
    return len(public) == 32 and len(sig) == 64 and sodium.crypto_sign_verify_detached(
        sig, data, ctypes.c_ulonglong(len(data)), public) == 0


def slice_bytes(boot, s):
    """What is signed of a slice as it stands in a report."""
    numbers = (s["seq"], s["epoch"], int(s["state"] == "running"), int(s["gpus_ok"]), s["t0"], s["t1"], s["cpu_us"],
               s["memory_bytes"], s["rx_bytes"], s["tx_bytes"], s["disk_used_mib"], s["gpu_util_pct"],
               s["gpu_memory_mib"])
    return b"suanli.slice.1\0" + boot.encode() + b"\0" + s["lease"].encode() + b"\0" + struct.pack(">13q", *numbers)
