//! The Terraform module and its example, applied for real: by Terraform and the AWS provider, to moto in
//! server mode on the loopback address.
//!
//! Nothing is fetched from Terraform's registry. Without Terraform, or without a folder that has the
//! provider, nothing is applied, and a sentence says so.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};

use super::{Infra, Moto};
use crate::{
    command::{output, quiet},
    tools::succeeds,
};

/// The variable with the folder of providers, as `terraform providers mirror` fills one.
const PLUGINS: &str = "TERRAFORM_PLUGIN_DIR";
/// What such a folder contains.
const PROVIDER: &str = "registry.terraform.io/hashicorp/aws";

/// What a second plan may change: the attributes of a type that moto does not return as they were
/// written, and what follows from them.
const NOT_RETURNED: [(&str, &[&str], &str); 2] = [
    (
        "aws_lambda_function",
        &["logging_config", "qualified_arn", "qualified_invoke_arn", "version"],
        "moto does not return the logging settings; a change of them publishes a version",
    ),
    ("aws_lambda_alias", &["function_version"], "it follows the function's version"),
];

/// The files of the module that are planned and not applied, because moto does not have their resources.
const NOT_IN_MOTO: [(&str, &str); 1] =
    [("queries.tf", "moto has no saved queries of CloudWatch Logs Insights")];

/// Checks the names that `infra/terraform/tests/many` would give, applies it, plans again, and destroys it, in a
/// copy. Then applies `tests/switch` with its own table and with a restored one.
pub(super) fn check(infra: &Infra) -> Result<bool> {
    let Some(plugins) = plugins()? else {
        println!(
            "    no Terraform with the AWS provider here ({PLUGINS} names the folder): the module is \
             not applied"
        );
        return Ok(true);
    };
    let copy = infra.work.join("terraform");
    if copy.exists() {
        fs::remove_dir_all(&copy)?;
    }
    copy_folder(&infra.terraform, &copy)?;
    let bundle = infra.work.join("function.zip");
    // An empty archive: moto does not run it.
    fs::write(&bundle, [b"PK\x05\x06".as_slice(), &[0; 18]].concat())?;
    let Moto { server, programs } = infra.start_moto()?;
    let root = |folder: &str, variables: &[_]| Root {
        folder: copy.join("tests").join(folder),
        endpoint: server.endpoint().to_owned(),
        variables: variables.to_vec(),
    };
    let many = root("many", &[("TF_VAR_bundle", bundle.into_os_string())]);
    let before = root("switch", &[]);
    let after = root("switch", &[("TF_VAR_is_switched", "true".into())]);
    if !many.init(&plugins)? || !before.init(&plugins)? {
        return Ok(false);
    }
    ensure_distinct_names(&many.plan()?)?;
    for (file, reason) in NOT_IN_MOTO {
        println!("    {file} is not applied: {reason}");
        fs::remove_file(copy.join(file))?;
    }
    many.apply("apply")?;
    for (address, reason) in &many.differences()? {
        println!("    planned again, {address} differs: {reason}");
    }
    many.apply("destroy")?;

    before.apply("apply")?;
    before.restore(&programs)?;
    let lost = deleted(&after.plan()?);
    ensure!(lost == [OWN_TABLE], "without a forgotten table, the switch deletes {lost:?}");
    let mut forget = after.terraform("state");
    ensure!(quiet(forget.args(["rm", OWN_TABLE]))?.success(), "terraform state rm {OWN_TABLE}");
    let lost = deleted(&after.plan()?);
    ensure!(lost.is_empty(), "the switch to a restored table deletes {lost:?}");
    after.apply("apply")?;
    after.differences()?;
    Ok(true)
}

/// The address that `docs/guide/operate.md` names.
const OWN_TABLE: &str = "module.idempotency.aws_dynamodb_table.this[0]";

/// Restores the table of `tests/switch`, as `docs/guide/operate.md` does it.
const RESTORE: [&str; 7] = [
    "dynamodb",
    "restore-table-to-point-in-time",
    "--source-table-name",
    "switch-idempotency",
    "--target-table-name",
    "switch-idempotency-restored",
    "--use-latest-restorable-time",
];

/// The addresses of the resources that a plan deletes.
fn deleted(plan: &Value) -> Vec<String> {
    let changes = plan["resource_changes"].as_array().map_or(&[][..], Vec::as_slice);
    let is_deleted = |change: &&Value| {
        let actions = change["change"]["actions"].as_array();
        actions.is_some_and(|actions| actions.contains(&json!("delete")))
    };
    let address = |change: &Value| Some(change["address"].as_str()?.to_owned());
    changes.iter().filter(is_deleted).filter_map(address).collect()
}

/// The folder of providers, if Terraform is here too.
fn plugins() -> Result<Option<PathBuf>> {
    let has_terraform = quiet(Command::new("terraform").arg("version"));
    if !has_terraform.is_ok_and(|status| status.success()) {
        return Ok(None);
    }
    if let Some(folder) = env::var_os(PLUGINS).filter(|folder| !folder.is_empty()) {
        let folder = PathBuf::from(folder);
        ensure!(
            folder.join(PROVIDER).is_dir(),
            "{PLUGINS} is {}: no {PROVIDER} there",
            folder.display()
        );
        return Ok(Some(folder));
    }
    let near_the_root = folders(Path::new("/")).into_iter().flat_map(|top| folders(&top));
    Ok(near_the_root.chain(folders(Path::new("/"))).find(|folder| folder.join(PROVIDER).is_dir()))
}

/// The folders in a folder; of those that cannot be read, none.
fn folders(of: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(of).into_iter().flatten().flatten();
    let is_searched = |path: &PathBuf| {
        let pseudo = ["proc", "sys", "dev"].map(OsStr::new);
        path.is_dir() && !path.file_name().is_some_and(|name| pseudo.contains(&name))
    };
    entries.map(|entry| entry.path()).filter(is_searched).collect()
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        // What Terraform has left there is no part of the module.
        if entry.file_name().to_string_lossy().starts_with(".terraform") {
            continue;
        }
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// A root module, the server that it is applied to, and its variables.
struct Root {
    folder: PathBuf,
    endpoint: String,
    variables: Vec<(&'static str, OsString)>,
}

impl Root {
    /// Returns whether the module is valid.
    fn init(&self, plugins: &Path) -> Result<bool> {
        let mut init = self.terraform("init");
        let mut plugin_folder = OsString::from("-plugin-dir=");
        plugin_folder.push(plugins);
        init.args(["-input=false", "-backend=false"]).arg(plugin_folder);
        ensure!(quiet(&mut init)?.success(), "terraform init: see it in {}", self.folder.display());
        succeeds(&mut self.terraform("validate"))
    }

    fn terraform(&self, command: &str) -> Command {
        let mut terraform = super::command("terraform", &self.folder);
        terraform.arg(command);
        if command != "state" {
            terraform.arg("-no-color");
        }
        terraform
            .env("TF_CLI_CONFIG_FILE", "/dev/null")
            .env("TF_IN_AUTOMATION", "1")
            .env("CHECKPOINT_DISABLE", "1")
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        self.with_moto(&mut terraform);
        terraform
    }

    /// No credentials of the machine, and no other endpoint.
    fn with_moto(&self, command: &mut Command) {
        command
            .env("AWS_ENDPOINT_URL", &self.endpoint)
            .env("AWS_REGION", "eu-west-1")
            // The only one that AWS CLI 1 reads.
            .env("AWS_DEFAULT_REGION", "eu-west-1")
            .env("AWS_ACCESS_KEY_ID", "none")
            .env("AWS_SECRET_ACCESS_KEY", "none")
            .env_remove("AWS_PROFILE")
            .env_remove("AWS_SESSION_TOKEN");
    }

    /// Restores the table, with the AWS CLI among these programs.
    fn restore(&self, programs: &Path) -> Result<()> {
        let mut restore = super::command(programs.join("aws"), &self.folder);
        self.with_moto(&mut restore);
        output(restore.args(RESTORE))?;
        Ok(())
    }

    /// What `apply` and `destroy` print is only of interest if they fail.
    fn apply(&self, command: &str) -> Result<()> {
        let mut apply = self.terraform(command);
        apply.args(["-auto-approve", "-input=false"]);
        let done = apply.output().context("terraform did not start")?;
        let errors = String::from_utf8_lossy(&done.stderr);
        ensure!(
            done.status.success(),
            "terraform {command} in {}:\n{errors}",
            self.folder.display()
        );
        println!("    terraform {command}");
        Ok(())
    }

    fn plan(&self) -> Result<Value> {
        let mut plan = self.terraform("plan");
        plan.args(["-input=false", "-out=again"]);
        output(&mut plan)?;
        let mut show = self.terraform("show");
        let plan = output(show.args(["-json", "again"]))?;
        Ok(serde_json::from_str(&plan)?)
    }

    /// What a second plan would change, each with its reason.
    fn differences(&self) -> Result<Vec<(String, &'static str)>> {
        differences(&self.plan()?)
    }
}

/// What identifies the resources of a type, of which the second one with the same values replaces the first one.
const IDENTITY: [(&str, &[&str]); 4] = [
    ("aws_cloudwatch_log_metric_filter", &["log_group_name", "name"]),
    ("aws_cloudwatch_metric_alarm", &["alarm_name"]),
    ("aws_cloudwatch_query_definition", &["name"]),
    ("aws_iam_role_policy", &["role", "name"]),
];

/// Fails if a plan gives two resources one identity, or if two instances of the module count in one metric.
fn ensure_distinct_names(plan: &Value) -> Result<()> {
    let changes = plan["resource_changes"].as_array().map_or(&[][..], Vec::as_slice);
    let mut owners = BTreeMap::new();
    for (kind, identity) in IDENTITY {
        let mut its = changes.iter().filter(|change| change["type"] == kind).peekable();
        ensure!(its.peek().is_some(), "the plan has no {kind}");
        for change in its {
            let after = &change["change"]["after"];
            let values: Vec<_> = identity.iter().filter_map(|name| after[name].as_str()).collect();
            ensure!(values.len() == identity.len(), "{} has no {identity:?}", change["address"]);
            let mut names = vec![(format!("the {kind} {}", values.join(" ")), &change["address"])];
            if let Some(metric) = after["metric_transformation"][0]["name"].as_str() {
                names.push((format!("the metric {metric}"), &change["module_address"]));
            }
            for (name, owner) in names {
                let other = owners.insert(name.clone(), owner).unwrap_or(owner);
                ensure!(other == owner, "{other} and {owner} would both have {name}");
            }
        }
    }
    Ok(())
}

/// The resources that a plan changes, with the reasons of [`NOT_RETURNED`].
fn differences(plan: &Value) -> Result<Vec<(String, &'static str)>> {
    let changes = plan["resource_changes"].as_array().map_or(&[][..], Vec::as_slice);
    ensure!(!changes.is_empty(), "the plan has no resource");
    let changes = changes.iter().filter(|change| change["change"]["actions"] != json!(["no-op"]));
    let known = |change: &Value| {
        let address = change["address"].as_str().unwrap_or_default().to_owned();
        let attributes = changed(&change["change"]);
        let reason = NOT_RETURNED.iter().find(|(resource, allowed, _)| {
            change["type"] == *resource
                && attributes.iter().all(|name| allowed.contains(&name.as_str()))
        });
        let Some((_, _, reason)) = reason else {
            bail!(
                "after `terraform apply`, a new plan changes {address} ({}): another resource has \
                 overwritten it, or it was not applied as written",
                attributes.join(", ")
            );
        };
        Ok((address, *reason))
    };
    changes.map(known).collect()
}

/// The attributes that differ before and after a change, and those that are only known after it.
fn changed(change: &Value) -> Vec<String> {
    let empty = Map::new();
    let [before, after, unknown] =
        ["before", "after", "after_unknown"].map(|side| change[side].as_object().unwrap_or(&empty));
    let differs = |name: &&String| {
        before.get(*name) != after.get(*name) || unknown.get(*name) == Some(&Value::Bool(true))
    };
    let names: BTreeSet<_> = before.keys().chain(after.keys()).chain(unknown.keys()).collect();
    names.into_iter().filter(differs).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(resource: &str, before: &Value, after: &Value) -> Value {
        let change = json!({"actions": ["update"], "before": before, "after": after});
        let still = json!({"address": "still", "type": "any", "change": {"actions": ["no-op"]}});
        json!({"resource_changes": [still, {"address": "it", "type": resource, "change": change}]})
    }

    #[test]
    fn what_moto_does_not_return_is_listed_with_its_reason() {
        let [before, after] = [json!({"logging_config": []}), json!({"logging_config": [1]})];
        let found = differences(&plan("aws_lambda_function", &before, &after)).unwrap();
        assert_eq!(found, [("it".to_owned(), NOT_RETURNED[0].2)]);
    }

    #[test]
    fn a_name_of_two_resources_and_a_metric_of_two_modules_are_errors() {
        let resource = |kind: &str, module: &str, index: u32, after: Value| {
            let address = format!("{module}.{kind}.this[{index}]");
            let change = json!({"actions": ["create"], "after": after});
            json!({"type": kind, "address": address, "module_address": module, "change": change})
        };
        let filter = |module: &str, index: u32, log_group: &str| {
            let after = json!({
                "log_group_name": log_group, "name": "n", "metric_transformation": [{"name": "m"}],
            });
            resource("aws_cloudwatch_log_metric_filter", module, index, after)
        };
        let with = |more: &[Value]| {
            let mut all = vec![
                filter("module.a", 0, "log 0"),
                filter("module.a", 1, "log 1"),
                resource("aws_cloudwatch_metric_alarm", "module.a", 0, json!({"alarm_name": "x"})),
                resource("aws_cloudwatch_query_definition", "module.a", 0, json!({"name": "x"})),
                resource("aws_iam_role_policy", "module.a", 0, json!({"role": "r", "name": "x"})),
            ];
            all.extend_from_slice(more);
            ensure_distinct_names(&json!({"resource_changes": all}))
        };
        with(&[]).unwrap();
        let policy = json!({"role": "r", "name": "x"});
        let error = with(&[resource("aws_iam_role_policy", "module.b", 0, policy)]).unwrap_err();
        assert!(
            error.to_string().contains("would both have the aws_iam_role_policy r x"),
            "{error}"
        );
        let error = with(&[filter("module.b", 0, "log 2")]).unwrap_err();
        assert!(error.to_string().contains("\"module.b\" would both have the metric m"), "{error}");
        assert!(ensure_distinct_names(&json!({})).is_err());
    }

    #[test]
    fn any_other_difference_is_an_error() {
        let [before, after] =
            [json!({"policy": "a", "name": "n"}), json!({"policy": "b", "name": "n"})];
        let error = differences(&plan("aws_iam_role_policy", &before, &after)).unwrap_err();
        assert!(error.to_string().contains("changes it (policy)"), "{error}");
        assert!(differences(&json!({})).is_err());
    }
}
