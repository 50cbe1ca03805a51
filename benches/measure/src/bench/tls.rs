//! DynamoDB Local by HTTPS: a front with a certificate of a certificate authority that is made here.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use xtask::{
    command::{describe, quiet},
    workspace::Workspace,
};

/// Where Linux distributions keep the certificates that clients trust.
const SYSTEM: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/cert.pem"];

pub(super) struct Front {
    process: Child,
    pub(super) endpoint: String,
    authority: PathBuf,
    /// What the system trusts, and the authority: a client has as many certificates to read as ever.
    trusted: PathBuf,
}

impl Front {
    /// Ends TLS before `endpoint`.
    pub(super) fn start(workspace: &Workspace, endpoint: &str) -> Result<Self> {
        let folder = workspace.target.join("tls");
        fs::create_dir_all(&folder)?;
        let file = |name: &str| folder.join(name);
        certify(&folder)?;
        let (authority, trusted) = (file("authority.pem"), file("trusted.pem"));
        let system = SYSTEM.iter().find_map(|path| fs::read_to_string(path).ok());
        let system = system.context("this system trusts no certificates")?;
        fs::write(&trusted, system + &fs::read_to_string(&authority)?)?;

        let port = endpoint.rsplit(':').next().unwrap_or_default().trim_end_matches('/');
        let mut process = Command::new("node")
            .arg(workspace.root.join("benches/tls/front.mjs"))
            .arg(port)
            .args([file("server.pem"), file("server.key")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("TLS is ended by Node.js")?;
        let mut said = String::new();
        let out = process.stdout.take().context("the front has no output")?;
        BufReader::new(out).read_line(&mut said)?;
        let endpoint = format!("https://127.0.0.1:{}", said.trim());
        let front = Self { process, endpoint, authority, trusted };
        ensure!(!said.trim().is_empty(), "the TLS front does not listen");
        Ok(front)
    }

    /// What has Java trust the front, and nothing else: it reads no PEM files.
    pub(super) fn java_options(&self) -> Result<String> {
        const PASSWORD: &str = "benches";
        let store = self.authority.with_file_name("trusted.p12");
        if store.exists() {
            fs::remove_file(&store)?;
        }
        let mut command = Command::new("keytool");
        command.args(["-importcert", "-noprompt", "-alias", PASSWORD, "-storepass", PASSWORD]);
        command.arg("-file").arg(&self.authority).arg("-keystore").arg(&store);
        let status = quiet(&mut command).context("certificates for Java are packed by keytool")?;
        ensure!(status.success(), "{}: {status}", describe(&command));
        let store = store.display();
        Ok(format!(
            "-Djavax.net.ssl.trustStore={store} -Djavax.net.ssl.trustStorePassword={PASSWORD}"
        ))
    }

    /// What has each side trust the front.
    pub(super) fn environment(&self) -> [(&'static str, &Path); 3] {
        [
            ("SSL_CERT_FILE", &self.trusted),
            ("AWS_CA_BUNDLE", &self.trusted),
            ("NODE_EXTRA_CA_CERTS", &self.authority),
        ]
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        if let Err(error) = self.process.kill().and_then(|()| self.process.wait()) {
            eprintln!("the TLS front {} could not be ended: {error}", self.process.id());
        }
    }
}

/// An authority, and a server's certificate by it, for a week; RSA, as DynamoDB's own.
fn certify(folder: &Path) -> Result<()> {
    let request = |arguments: &[&str]| {
        let mut command = Command::new("openssl");
        command.current_dir(folder).args(["req", "-x509", "-nodes", "-days", "7"]);
        command.args(["-newkey", "rsa:2048"]).args(arguments);
        let status = quiet(&mut command).context("certificates are made by OpenSSL")?;
        ensure!(status.success(), "{}: {status}", describe(&command));
        anyhow::Ok(())
    };
    request(&[
        "-keyout",
        "authority.key",
        "-out",
        "authority.pem",
        "-subj",
        "/CN=benches",
        "-addext",
        "basicConstraints=critical,CA:TRUE",
        "-addext",
        "keyUsage=keyCertSign",
    ])?;
    request(&[
        "-keyout",
        "server.key",
        "-out",
        "server.pem",
        "-subj",
        "/CN=127.0.0.1",
        "-CA",
        "authority.pem",
        "-CAkey",
        "authority.key",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-addext",
        "basicConstraints=CA:FALSE",
    ])
}
