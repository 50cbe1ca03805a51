//! Help, completions and manual pages.

use std::process::Stdio;

use crate::support::{program, run, unique};

const COMMANDS: [&str; 7] =
    ["create-table", "doctor", "show", "stuck", "stats", "release", "watch"];

#[tokio::test]
async fn every_command_is_in_the_help_the_completions_and_the_manual() {
    for args in [&["--help"][..], &["completions", "bash"], &["completions", "zsh"], &["man"]] {
        let printed = run(args).await;
        assert_eq!((printed.code, printed.err.as_str()), (0, ""), "{printed:?}");
        for command in COMMANDS {
            let command = if args == ["man"] { &command.replace('-', "\\-") } else { command };
            assert!(printed.out.contains(command), "{command} in {args:?}");
        }
    }
}

/// As `idempotency completions bash | head -1` does.
#[tokio::test]
async fn a_reader_that_has_enough_is_no_error() {
    let mut program = program(&["completions", "bash"]);
    let mut running =
        program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    drop(running.stdout.take());
    let output = running.wait_with_output().await.expect("it ends");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[tokio::test]
async fn manual_pages_are_written_into_a_folder() {
    let folder = std::env::temp_dir().join(unique());
    std::fs::create_dir(&folder).unwrap();
    let written = run(&["man", folder.to_str().unwrap()]).await;
    assert_eq!((written.code, written.err.as_str()), (0, ""), "{written:?}");
    for command in COMMANDS {
        let page =
            std::fs::read_to_string(folder.join(format!("idempotency-{command}.1"))).unwrap();
        assert!(page.contains(".TH"), "{page}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
    let missing = run(&["man", folder.to_str().unwrap()]).await;
    assert!(!missing.error(1).is_empty());
}
