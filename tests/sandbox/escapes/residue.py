"""What succeeds on which back end. The page names each; whoever contains less than the rest is degraded."""

SEEN_OUTSIDE = {
    "stat_outside", "readlink_outside", "change_directory", "open_path_alone", "ask_the_file_system", "see_process_ids",
    "read_host_name",
}  # fmt: skip
"""Names and attributes, which need a mount namespace to be hidden."""

NOT_COUNTED = {"takes_memory_of_sockets", "takes_memory_of_mappings_cut_down"}
"""Memory of the kernel's own, which only a cgroup counts."""

COUNTED_AS_MEMORY = {"takes_inodes", "takes_inodes_of_folders", "terminals_of_the_machine"}
"""Files and terminals without number, for whose memory a cgroup has a limit."""

UNFLAGGED = NOT_COUNTED | COUNTED_AS_MEMORY
"""What takes more than its share of something and reaches nobody."""

RESIDUE = {
    "native": NOT_COUNTED,
    "bubblewrap": NOT_COUNTED,
    "podman": COUNTED_AS_MEMORY,
    "landlock": {*NOT_COUNTED, *SEEN_OUTSIDE, "takes_disk_in_flight"},
}

_NETWORK = {
    "tcp4", "tcp6", "udp4", "udp6", "udp_connected", "tcp_fast_open", "mptcp", "sctp", "udp_lite", "ping", "serve_tcp",
    "serve_udp", "outside_sockets",
}  # fmt: skip
_OWN_CHANNEL = {"inherit_sockets", "inherit_anything"}
_UNLIMITED = {"raise_limits", "lock_memory", "many_descriptors", "many_pending_signals"}
_METADATA = {"change_mode", "change_owner", "change_times", "attributes_outside", "outside_files", "large_file"}

JAIL = {
    "jail": SEEN_OUTSIDE | _NETWORK | _OWN_CHANNEL | _UNLIMITED,
    "jail-write": SEEN_OUTSIDE | _NETWORK | _OWN_CHANNEL | _UNLIMITED | _METADATA,
}
"""What succeeds in a call of sandbox.jail, without a list and with a folder to write in."""

JAIL_OF_ROOT = {"capabilities", "capabilities_of_a_program_of_root", "become_root"}
"""What also does where the caller is root, and the function with it."""
