//! Which file's code is where in the memory of the process. With it, a program that lacks names or line numbers can be looked up
//! later, in the same program built with them.

/// A stretch of code. Offsets are those of the ELF file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mapped {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) offset: u64,
    pub(super) file: String,
}

/// Of this process, in the order of addresses. Without /proc there are none, and profiles have names alone.
pub(super) fn own() -> Vec<Mapped> {
    executable(&std::fs::read_to_string("/proc/self/maps").unwrap_or_default())
}

/// `maps` is a text as in proc_pid_maps(5): address range, permissions, offset, device, inode, file.
fn executable(maps: &str) -> Vec<Mapped> {
    maps.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Mapped> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let offset = fields.next()?;
    // A file that was replaced meanwhile is still the one that runs, under the name that it had.
    let file = fields.nth(2)?.trim_start();
    let file = file.strip_suffix(" (deleted)").unwrap_or(file);
    let hex = |digits| u64::from_str_radix(digits, 16).ok();
    let mapped = Mapped { start: hex(start)?, end: hex(end)?, offset: hex(offset)?, file: file.to_owned() };
    (permissions.contains('x') && !file.is_empty()).then_some(mapped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_files_is_found_and_data_and_memory_without_a_file_are_not() {
        let maps = "\
55d0c0a00000-55d0c0c00000 r--p 00000000 fe:01 1835041                    /karpenter-provisioner
55d0c0c00000-55d0c1800000 r-xp 00200000 fe:01 1835041                    /karpenter-provisioner (deleted)
55d0c1800000-55d0c1a00000 rw-p 00e00000 fe:01 1835041                    /karpenter-provisioner
7f0000000000-7f0000001000 rwxp 00000000 00:00 0
7f1000000000-7f1000002000 r-xp 00001000 fe:01 77                         /opt/a b/lib.so
7ffd3a1f0000-7ffd3a1f2000 r-xp 00000000 00:00 0                          [vdso]
not a line
";
        let of = |start, end, offset, file: &str| Mapped { start, end, offset, file: file.to_owned() };
        assert_eq!(
            executable(maps),
            [
                of(0x55d0_c0c0_0000, 0x55d0_c180_0000, 0x20_0000, "/karpenter-provisioner"),
                of(0x7f10_0000_0000, 0x7f10_0000_2000, 0x1000, "/opt/a b/lib.so"),
                of(0x7ffd_3a1f_0000, 0x7ffd_3a1f_2000, 0, "[vdso]"),
            ]
        );
        let here = code_of_files_is_found_and_data_and_memory_without_a_file_are_not as fn() as usize as u64;
        let own = own();
        let mapped = own.iter().find(|mapped| (mapped.start..mapped.end).contains(&here)).unwrap();
        assert_eq!(std::path::Path::new(&mapped.file), std::env::current_exe().unwrap());
    }
}
