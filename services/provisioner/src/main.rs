//! The process around [`provisioner`].

runtime::process!(Provisioner, provisioner::start);
