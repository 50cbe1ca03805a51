//! `cargo xtask verify infra`: the SAM template, the CDK app and constructs, and the Terraform module in `infra/`.
//!
//! Nothing here asks for an AWS account, and nothing is built that would be deployed. The network is
//! for the tools alone, whose versions are pinned: they are installed once, and again when their
//! lock files have changed.

mod terraform;

use std::{
    env,
    ffi::OsStr,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Result, bail, ensure};
use serde_json::Value;

use crate::{
    command::output,
    dynamodb_local::{self, Server},
    tools::{self, NODE, NPM, PYTHON, Tool, succeeds},
    workspace::Workspace,
};

/// What a machine must have. The rest is installed below `target` and `infra/cdk`.
const TOOLS: &[Tool] = &[PYTHON, NODE, NPM];

/// The message that names the missing tools, if any are missing.
pub(crate) fn missing() -> Option<String> {
    tools::missing(TOOLS)
}

/// `false` if something is wrong; what has been printed then. Nothing may be missing.
pub(crate) fn check(workspace: &Workspace) -> Result<bool> {
    let infra = Infra::of(workspace);
    fs::create_dir_all(&infra.work)?;
    Ok(infra.install_python()?
        && tools::install_node(&infra.cdk, infra.work.join("npm.lock"))?
        && infra.check_sam()?
        && infra.check_servers()?
        && infra.check_cdk()?
        && infra.check_jsii()?
        && infra.check_with_checkov()?
        && terraform::check(&infra)?)
}

/// What the end-to-end tests take of AWS SAM.
pub(crate) struct Sam {
    /// The Lambda Runtime Interface Emulator for this machine, which comes with the SAM CLI.
    pub(crate) emulator: PathBuf,
    /// What CloudFormation gets of the template.
    pub(crate) template: Value,
}

/// Installs the SAM CLI if it is not there, and translates the template.
pub(crate) fn sam(workspace: &Workspace) -> Result<Sam> {
    let infra = Infra::with_python(workspace)?;
    ensure!(infra.install_python()?, "the SAM CLI could not be installed");
    let emulator = infra.emulator()?;
    let (translated, file) = infra.translate(TEMPLATE)?;
    ensure!(translated, "the SAM template could not be translated");
    let template = serde_json::from_str(&fs::read_to_string(file)?)?;
    Ok(Sam { emulator, template })
}

/// moto, which emulates AWS, and the programs that are installed with it: the AWS CLI is one of them.
pub(crate) struct Moto {
    pub(crate) server: Server,
    pub(crate) programs: PathBuf,
}

/// Installs moto and the AWS CLI if they are not there, and starts moto.
pub(crate) fn moto(workspace: &Workspace) -> Result<Moto> {
    let infra = Infra::with_python(workspace)?;
    ensure!(infra.install_checks()?, "moto could not be installed");
    infra.start_moto()
}

/// As the SAM CLI calls its builds of the emulator.
fn emulator_name() -> Result<&'static str> {
    match (env::consts::OS, env::consts::ARCH) {
        ("linux", "x86_64") => Ok("aws-lambda-rie-x86_64"),
        ("linux", "aarch64") => Ok("aws-lambda-rie-arm64"),
        (os, arch) => bail!("there is no Lambda Runtime Interface Emulator for {os} on {arch}"),
    }
}

/// Two of the regions of AWS that have no function URLs.
const WITHOUT_FUNCTION_URLS: [&str; 2] = ["ap-east-2", "il-central-1"];

/// Functions whose alarms fit into a stack, by `watch.py`.
const FUNCTIONS_OF_A_STACK: usize = 20;

/// In `infra/sam`.
const TEMPLATE: &str = "template.yaml";

struct Infra {
    sam: PathBuf,
    cdk: PathBuf,
    terraform: PathBuf,
    /// For what is installed and made here.
    work: PathBuf,
}

impl Infra {
    fn of(workspace: &Workspace) -> Self {
        let infra = workspace.root.join("infra");
        let work = workspace.target.join("infra");
        let [sam, cdk, terraform] = ["sam", "cdk", "terraform"].map(|tool| infra.join(tool));
        Self { sam, cdk, terraform, work }
    }

    /// With the folder for its work. Fails if this machine has no Python.
    fn with_python(workspace: &Workspace) -> Result<Self> {
        if let Some(missing) = tools::missing(&[PYTHON]) {
            bail!("{missing}");
        }
        let infra = Self::of(workspace);
        fs::create_dir_all(&infra.work)?;
        Ok(infra)
    }

    fn install_python(&self) -> Result<bool> {
        let constraints = self.sam.join("constraints.txt");
        let requirements = self.sam.join("requirements.txt");
        tools::install_python(&self.work.join("venv"), &requirements, Some(&constraints))
    }

    /// The virtual environment of checkov, moto and the AWS CLI: checkov needs older packages than the SAM CLI.
    fn checks(&self) -> PathBuf {
        self.work.join("checks")
    }

    fn install_checks(&self) -> Result<bool> {
        let [requirements, constraints] = ["requirements.txt", "constraints.txt"]
            .map(|file| self.terraform.join("tests").join(file));
        tools::install_python(&self.checks(), &requirements, Some(&constraints))
    }

    fn start_moto(&self) -> Result<Moto> {
        let programs = self.checks().join("bin");
        let server = dynamodb_local::emulated("moto", &self.work.join("moto"), |port| {
            let mut moto = Command::new(programs.join("moto_server"));
            moto.args(["-H", "127.0.0.1", "-p"]).arg(port.to_string());
            moto
        })?;
        Ok(Moto { server, programs })
    }

    /// The findings that are accepted are in the configuration, each with its reason.
    fn check_with_checkov(&self) -> Result<bool> {
        if !self.install_checks()? {
            return Ok(false);
        }
        let template = self.work.join("checkov");
        fs::create_dir_all(&template)?;
        fs::copy(self.work.join("template.json"), template.join("template.json"))?;
        let mut checkov = command(self.checks().join("bin/checkov"), &self.work);
        checkov.arg("--config-file").arg(self.terraform.join("../checkov.yaml"));
        checkov.arg("--directory").arg(&self.terraform);
        // A relative path: checkov takes 40 characters of an absolute one for a secret.
        succeeds(checkov.args(["--directory", "checkov"]))
    }

    fn emulator(&self) -> Result<PathBuf> {
        let package = "import pathlib, samcli; print(pathlib.Path(samcli.__file__).parent)";
        let package = output(self.python_tool("python").args(["-c", package]))?;
        let emulator = Path::new(package.trim()).join("local/rapid").join(emulator_name()?);
        ensure!(emulator.exists(), "{} is not in this version of the SAM CLI", emulator.display());
        Ok(emulator)
    }

    /// What the SAM translator makes of a template, which has its name.
    fn translate(&self, template: impl AsRef<Path>) -> Result<(bool, PathBuf)> {
        let template = template.as_ref();
        let name = Path::new(template.file_name().unwrap_or_default()).with_extension("json");
        let translated = self.work.join(name);
        let mut translate = self.python_tool("python");
        translate.arg("translate.py").arg(template).stdout(File::create(&translated)?);
        Ok((succeeds(&mut translate)?, translated))
    }

    /// The template, and the others that are made of it.
    fn check_sam(&self) -> Result<bool> {
        let [managed, regional] =
            ["managed-instances.yaml", "regional.yaml"].map(|template| self.work.join(template));
        Ok(self.check_template(Path::new(TEMPLATE))?
            && self.make_template(&["managed_instances.py"], &managed)?
            && self.check_template(&managed)?
            && self.make_template(&["without_function_url.py"], &regional)?
            && self.check_template_in(&regional, WITHOUT_FUNCTION_URLS)?
            && self.check_alarms_of_many_functions()?)
    }

    fn make_template(&self, program: &[impl AsRef<OsStr>], template: &Path) -> Result<bool> {
        let mut make = self.python_tool("python");
        succeeds(make.args(program).stdout(File::create(template)?))
    }

    /// Fifty functions, in as many templates as they need.
    fn check_alarms_of_many_functions(&self) -> Result<bool> {
        let names: Vec<_> = (0..50).map(|index| format!("function-{index}")).collect();
        let mut templates = Vec::new();
        for (part, names) in names.chunks(FUNCTIONS_OF_A_STACK).enumerate() {
            let template = self.work.join(format!("watch-{part}.yaml"));
            let program = [&["watch.py".to_owned()], names].concat();
            if !self.make_template(&program, &template)? {
                return Ok(false);
            }
            templates.push(template);
        }
        succeeds(self.python_tool("cfn-lint").args(templates))
    }

    /// Checks that these regions know all resources of the template.
    fn check_template_in(&self, template: &Path, regions: [&str; 2]) -> Result<bool> {
        let (is_translated, translated) = self.translate(template)?;
        let mut lint = self.python_tool("cfn-lint");
        lint.arg("--regions").args(regions).arg("--").arg(translated);
        Ok(is_translated && succeeds(&mut lint)?)
    }

    /// Checks the template, and the template that SAM's transform makes of it.
    fn check_template(&self, template: &Path) -> Result<bool> {
        let validate = ["validate", "--lint", "--region", "us-east-1", "--template"];
        if !succeeds(self.python_tool("sam").args(validate).arg(template))?
            || !succeeds(self.python_tool("cfn-lint").arg(template))?
        {
            return Ok(false);
        }
        let (is_translated, translated) = self.translate(template)?;
        Ok(is_translated && succeeds(self.python_tool("cfn-lint").arg(translated))?)
    }

    /// The alarms for servers. Prometheus's own program tests its rules, where it is installed.
    fn check_servers(&self) -> Result<bool> {
        let template = Path::new("../servers/cloudwatch.yaml");
        if !succeeds(self.python_tool("cfn-lint").arg(template))? {
            return Ok(false);
        }
        let servers = self.sam.join("../servers");
        if command("promtool", &servers).arg("--version").output().is_err() {
            println!("    this machine has no promtool: the rules for Prometheus are not tested");
            return Ok(true);
        }
        succeeds(command("promtool", &servers).args(["test", "rules", "prometheus.test.yml"]))
    }

    /// The tests are over both: they read what `check_sam` has translated.
    fn check_cdk(&self) -> Result<bool> {
        let synth = ["synth", "--quiet", "--no-notices", "-c", "stage=dev", "-c", "bundling=skip"];
        Ok(succeeds(self.node_tool("tsc").args(["--project", "."]))?
            && succeeds(self.node_tool("tsc").args(["--project", "test"]))?
            && succeeds(
                self.node_tool("vitest")
                    .args(["run", "--reporter=dot"])
                    .env("TRANSLATED_SAM_TEMPLATES", &self.work),
            )?
            && succeeds(
                self.node_tool("cdk").args(synth).arg("--output").arg(self.work.join("cdk.out")),
            )?)
    }

    /// The constructs compiled as jsii asks for, which makes packages for other languages of them: by the
    /// oldest aws-cdk-lib that they may be used with.
    fn check_jsii(&self) -> Result<bool> {
        let package = self.work.join("jsii");
        let library = package.join("lib");
        // Not what an earlier run has left there.
        if library.exists() {
            fs::remove_dir_all(&library)?;
        }
        fs::create_dir_all(&library)?;
        for file in ["README.md", "jsii/package.json", "jsii/package-lock.json"] {
            let from = self.cdk.join(file);
            fs::copy(&from, package.join(from.file_name().unwrap_or_default()))?;
        }
        for source in fs::read_dir(self.cdk.join("lib"))? {
            let source = source?;
            fs::copy(source.path(), library.join(source.file_name()))?;
        }
        let mut jsii = command(package.join("node_modules/.bin/jsii"), &package);
        // The oldest that is asked for here; jsii runs by it, and calls it old in fifteen lines.
        jsii.env("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20");
        Ok(tools::install_node(&package, self.work.join("jsii.lock"))? && succeeds(&mut jsii)?)
    }

    fn python_tool(&self, name: &str) -> Command {
        command(self.work.join("venv/bin").join(name), &self.sam)
    }

    fn node_tool(&self, name: &str) -> Command {
        command(self.cdk.join("node_modules/.bin").join(name), &self.cdk)
    }
}

/// No telemetry, and no search for the credentials of a machine in the cloud.
fn command(program: impl AsRef<Path>, directory: &Path) -> Command {
    let mut command = Command::new(program.as_ref());
    command
        .current_dir(directory)
        .stdin(Stdio::null())
        .env("SAM_CLI_TELEMETRY", "0")
        .env("CDK_DISABLE_CLI_TELEMETRY", "true")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        // In CI mode a missing snapshot fails instead of being written.
        .env("CI", "true");
    command
}
