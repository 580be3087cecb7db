package bedrock

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/llm/ambient"
)

// told reads credentials as containers' and instances' services write them.
func told(raw []byte) Credentials {
	var c struct {
		AccessKeyId, SecretAccessKey, Token, Expiration string
	}
	if json.Unmarshal(raw, &c) != nil {
		return Credentials{}
	}
	return ending(c.AccessKeyId, c.SecretAccessKey, c.Token, c.Expiration)
}

// container asks the endpoint that ECS and EKS tell a container of.
func (c *Chain) container(ctx context.Context) (Credentials, error) {
	address := c.Env.Get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
	if path := c.Env.Get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); path != "" {
		address = "http://169.254.170.2" + path
	}
	if address == "" {
		return Credentials{}, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && !besideUs(u.Hostname()) {
		return Credentials{}, ambient.None("AWS_CONTAINER_CREDENTIALS_FULL_URI names a host that is neither this machine nor asked by https")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return Credentials{}, nil
	}
	token := c.Env.Get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
	if file := c.Env.Get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" {
		raw, err := os.ReadFile(file)
		if err != nil {
			return Credentials{}, ambient.Unread(err, "read the file that AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE names")
		}
		token = strings.TrimSpace(string(raw))
	}
	if token != "" {
		req.Header.Set("Authorization", token)
	}
	said, err := ambient.Near(req)
	found := told(said.Body)
	if err != nil || !said.OK || !found.complete() {
		return Credentials{}, ambient.None("the container's endpoint for AWS credentials gave none")
	}
	return found, nil
}

// besideUs says whether a host is this machine, or one of the addresses at which ECS and EKS answer.
func besideUs(host string) bool {
	switch host {
	case "169.254.170.2", "169.254.170.23", "fd00:ec2::23":
		return true
	}
	return ambient.Loopback(host)
}

// instance asks an EC2 instance's metadata, by a session (IMDSv2) only. On other machines nothing answers.
func (c *Chain) instance(ctx context.Context) (Credentials, error) {
	if strings.EqualFold(c.Env.Get("AWS_EC2_METADATA_DISABLED"), "true") {
		return Credentials{}, nil
	}
	base := strings.TrimRight(c.Env.Get("AWS_EC2_METADATA_SERVICE_ENDPOINT"), "/")
	if base == "" {
		base = "http://169.254.169.254"
	}
	ask := func(method, path, header, value string) string {
		req, err := http.NewRequestWithContext(ctx, method, base+path, nil)
		if err != nil {
			return ""
		}
		req.Header.Set(header, value)
		said, err := ambient.Near(req)
		if err != nil || !said.OK {
			return ""
		}
		return strings.TrimSpace(string(said.Body))
	}
	const session, roles = "X-Aws-Ec2-Metadata-Token", "/latest/meta-data/iam/security-credentials/"
	token := ask(http.MethodPut, "/latest/api/token", session+"-Ttl-Seconds", "300")
	if token == "" {
		return Credentials{}, nil
	}
	role, _, _ := strings.Cut(ask(http.MethodGet, roles, session, token), "\n")
	if role == "" {
		return Credentials{}, nil
	}
	return told([]byte(ask(http.MethodGet, roles+url.PathEscape(role), session, token))), nil
}

// webIdentity trades a token in a file, as EKS and CI systems lay it down, for a role's credentials.
func (c *Chain) webIdentity(ctx context.Context) (Credentials, error) {
	file, role := c.Env.Get("AWS_WEB_IDENTITY_TOKEN_FILE"), c.Env.Get("AWS_ROLE_ARN")
	if file == "" || role == "" {
		return Credentials{}, nil
	}
	token, err := os.ReadFile(file)
	if err != nil {
		return Credentials{}, ambient.Unread(err, "read the file that AWS_WEB_IDENTITY_TOKEN_FILE names")
	}
	name := c.Env.Get("AWS_ROLE_SESSION_NAME")
	if name == "" {
		name = "hardshell"
	}
	base := strings.TrimRight(c.Env.Get("AWS_ENDPOINT_URL_STS"), "/")
	if base == "" {
		base = "https://sts." + c.Region + ".amazonaws.com"
	}
	form := url.Values{"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {role}, "RoleSessionName": {name},
		"WebIdentityToken": {strings.TrimSpace(string(token))}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/", strings.NewReader(form.Encode()))
	if err != nil {
		return Credentials{}, ambient.None("AWS_ENDPOINT_URL_STS is not a URL")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	var answer struct {
		Result struct {
			Credentials struct{ AccessKeyId, SecretAccessKey, SessionToken, Expiration string }
		} `xml:"AssumeRoleWithWebIdentityResult"`
	}
	said, err := ambient.Far(req)
	if err == nil && said.OK {
		err = xml.Unmarshal(said.Body, &answer)
	}
	given := answer.Result.Credentials
	found := ending(given.AccessKeyId, given.SecretAccessKey, given.SessionToken, given.Expiration)
	if err != nil || !found.complete() {
		return Credentials{}, ambient.None("the AWS token service gave no credentials for the role %s", role).WithTry("check the role's trust policy")
	}
	return found, nil
}
