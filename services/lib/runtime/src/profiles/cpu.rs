//! CPU time by function. A timer that counts the CPU time of the process interrupts whichever thread runs and records its stack.

use std::{collections::HashMap, ffi::c_void, time::SystemTime};

use pprof::{ProfilerGuard, ProfilerGuardBuilder, UnresolvedReport};

use super::{
    Error,
    encode::{Function, Label, Line, Location, Mapping, Profile, Sample, Strings, ValueType, gzip},
    mapped::{self, Mapped},
};

/// As Go's: often enough for one second to show something, and not in step with work that is done at round times.
const SAMPLES_PER_SECOND: i32 = 99;
/// The function that takes the samples, on top of every stack.
const HANDLER: &[u8] = b"perf_signal_handler";

pub(super) struct Sampling(ProfilerGuard<'static>);

impl Sampling {
    pub(super) fn start() -> Result<Self, Error> {
        match ProfilerGuardBuilder::default().frequency(SAMPLES_PER_SECOND).build() {
            Ok(guard) => Ok(Self(guard)),
            Err(pprof::Error::Running) => Err(Error::Running),
            Err(error) => Err(Error::failed(error)),
        }
    }

    /// Ends the sampling.
    pub(super) fn profile(self) -> Result<Vec<u8>, Error> {
        let report = self.0.report().build_unresolved().map_err(Error::failed)?;
        drop(self);
        gzip(&encode(&report, &mapped::own())).map_err(Error::failed)
    }
}

fn encode(report: &UnresolvedReport, mapped: &[Mapped]) -> Profile {
    let nanoseconds_each = 1_000_000_000 / i64::from(report.timing.frequency);
    let mut strings = Strings::default();
    let cpu = ValueType { kind: strings.index("cpu"), unit: strings.index("nanoseconds") };
    let samples = ValueType { kind: strings.index("samples"), unit: strings.index("count") };
    let thread = strings.index("thread");
    let mut profile = Profile {
        sample_type: vec![samples, cpu],
        mapping: mapped.iter().zip(1..).map(|(each, id)| mapping(each, id, &mut strings)).collect(),
        time_nanos: nanoseconds(
            report.timing.start_time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
        ),
        duration_nanos: nanoseconds(report.timing.duration),
        period_type: Some(cpu),
        period: nanoseconds_each,
        ..Profile::default()
    };
    let mut code = Code { strings, ..Code::default() };
    for (stack, count) in &report.data {
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        let mut location_id = Vec::with_capacity(stack.frames.len());
        let mut frames = stack.frames.iter();
        let mut interrupted = false;
        while let Some(frame) = frames.next() {
            // A frame has the address to return to, which may belong to the next line or function; but one that was interrupted
            // has the address where it was.
            let address = (frame.ip() as u64).saturating_sub(u64::from(!std::mem::take(&mut interrupted)));
            match code.place(address, &mut profile) {
                Place::Location(id) => location_id.push(id),
                // What ran is below the handler and the kernel's own frame that called it.
                Place::Handler => {
                    location_id.clear();
                    frames.next();
                    interrupted = true;
                }
            }
        }
        let name = String::from_utf8_lossy(&stack.thread_name[..stack.thread_name_length]);
        let label = match name.is_empty() {
            true => code.strings.index(&stack.thread_id.to_string()),
            false => code.strings.index(&name),
        };
        let value = vec![count, count.saturating_mul(nanoseconds_each)];
        profile.sample.push(Sample { location_id, value, label: vec![Label { key: thread, text: label }] });
    }
    profile.string_table = code.strings.table();
    profile
}

fn mapping(mapped: &Mapped, id: u64, strings: &mut Strings) -> Mapping {
    Mapping {
        id,
        memory_start: mapped.start,
        memory_limit: mapped.end,
        file_offset: mapped.offset,
        filename: strings.index(&mapped.file),
        ..Mapping::default()
    }
}

fn nanoseconds(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[derive(Clone, Copy)]
enum Place {
    Handler,
    Location(u64),
}

/// What is known of the code of all stacks.
#[derive(Default)]
struct Code {
    strings: Strings,
    places: HashMap<u64, Place>,
    /// By name and file.
    functions: HashMap<(i64, i64), u64>,
}

impl Code {
    fn place(&mut self, address: u64, profile: &mut Profile) -> Place {
        if let Some(place) = self.places.get(&address) {
            return *place;
        }
        let mut handles = false;
        let mut line = Vec::new();
        let mapping =
            profile.mapping.iter_mut().find(|each| (each.memory_start..each.memory_limit).contains(&address));
        let mapping_id = mapping.as_ref().map_or(0, |mapping| mapping.id);
        let mut unused = Mapping::default();
        let mapping = mapping.unwrap_or(&mut unused);
        // The function at the address, and before it those that the compiler inlined there, innermost first. In a program without
        // names there are none: then the profile has the address alone. The library takes what it is given for an address to
        // return to, and looks one byte before it.
        backtrace::resolve(address.saturating_add(1) as *mut c_void, |symbol| {
            let Some(name) = symbol.name() else { return };
            handles |= name.as_bytes() == HANDLER;
            let file = symbol.filename().map(|file| self.strings.index(&file.to_string_lossy()));
            mapping.has_functions = true;
            mapping.has_filenames |= file.is_some();
            mapping.has_line_numbers |= symbol.lineno().is_some();
            mapping.has_inline_frames |= !line.is_empty();
            let function = (self.strings.index(&format!("{name:#}")), file.unwrap_or_default());
            let next = profile.function.len() as u64 + 1;
            let function_id = *self.functions.entry(function).or_insert(next);
            if function_id == next {
                let system_name = self.strings.index(&String::from_utf8_lossy(name.as_bytes()));
                let (name, filename) = function;
                profile.function.push(Function { id: next, name, system_name, filename });
            }
            line.push(Line { function_id, line: symbol.lineno().map_or(0, i64::from) });
        });
        let place = if handles {
            Place::Handler
        } else {
            let id = profile.location.len() as u64 + 1;
            profile.location.push(Location { id, mapping_id, address, line });
            Place::Location(id)
        };
        self.places.insert(address, place);
        place
    }
}
