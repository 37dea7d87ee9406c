"""What succeeds on which back end. The page names each; whoever contains less than the rest is degraded."""

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
    "landlock": {
        *NOT_COUNTED, "takes_disk_in_flight", "stat_outside", "readlink_outside", "change_directory", "open_path_alone",
        "ask_the_file_system", "see_process_ids", "read_host_name",
    },
}  # fmt: skip
