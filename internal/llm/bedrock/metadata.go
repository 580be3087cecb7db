package bedrock

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// near asks services beside this process; no proxy stands between, and where there is none nobody waits long.
var near = &http.Client{
	Timeout:       5 * time.Second,
	Transport:     &http.Transport{DialContext: (&net.Dialer{Timeout: time.Second}).DialContext, DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// maxAnswer bounds what is read of such a service.
const maxAnswer = 64 << 10

// fetch asks one of them. An answer that is not 200 is empty.
func fetch(client *http.Client, req *http.Request) ([]byte, error) {
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, nil
	}
	return io.ReadAll(io.LimitReader(res.Body, maxAnswer))
}

// told reads credentials as containers' and instances' services write them.
func told(raw []byte) Credentials {
	var c struct {
		AccessKeyId, SecretAccessKey, Token, Expiration string
	}
	if json.Unmarshal(raw, &c) != nil || c.SecretAccessKey == "" {
		return Credentials{}
	}
	return ending(c.AccessKeyId, c.SecretAccessKey, c.Token, c.Expiration)
}

// container asks the endpoint that ECS and EKS tell a container of.
func (c *Chain) container(ctx context.Context) (Credentials, error) {
	address := c.getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
	if path := c.getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); path != "" {
		address = "http://169.254.170.2" + path
	}
	if address == "" {
		return Credentials{}, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && !besideUs(u.Hostname()) {
		return Credentials{}, fault.New(fault.Upstream, "AWS_CONTAINER_CREDENTIALS_FULL_URI names a host that is neither this machine nor asked by https").
			WithCode("server_error")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return Credentials{}, nil
	}
	token := c.getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN")
	if file := c.getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" {
		raw, err := os.ReadFile(file)
		if err != nil {
			return Credentials{}, fault.Wrap(fault.Upstream, err, "read the file that AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE names").WithCode("server_error")
		}
		token = strings.TrimSpace(string(raw))
	}
	if token != "" {
		req.Header.Set("Authorization", token)
	}
	raw, err := fetch(near, req)
	found := told(raw)
	if err != nil || found.AccessKey == "" {
		return Credentials{}, fault.New(fault.Upstream, "the container's endpoint for AWS credentials gave none").WithCode("server_error")
	}
	return found, nil
}

// besideUs says whether a host is this machine, or one of the addresses at which ECS and EKS answer.
func besideUs(host string) bool {
	switch host {
	case "localhost", "169.254.170.2", "169.254.170.23", "fd00:ec2::23":
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// instance asks an EC2 instance's metadata, by a session (IMDSv2) only. On other machines nothing answers.
func (c *Chain) instance(ctx context.Context) (Credentials, error) {
	if strings.EqualFold(c.getenv("AWS_EC2_METADATA_DISABLED"), "true") {
		return Credentials{}, nil
	}
	base := strings.TrimRight(c.getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"), "/")
	if base == "" {
		base = "http://169.254.169.254"
	}
	ask := func(method, path, header, value string) string {
		req, err := http.NewRequestWithContext(ctx, method, base+path, nil)
		if err != nil {
			return ""
		}
		req.Header.Set(header, value)
		raw, err := fetch(near, req)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(raw))
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
	file, role := c.getenv("AWS_WEB_IDENTITY_TOKEN_FILE"), c.getenv("AWS_ROLE_ARN")
	if file == "" || role == "" {
		return Credentials{}, nil
	}
	token, err := os.ReadFile(file)
	if err != nil {
		return Credentials{}, fault.Wrap(fault.Upstream, err, "read the file that AWS_WEB_IDENTITY_TOKEN_FILE names").WithCode("server_error")
	}
	name := c.getenv("AWS_ROLE_SESSION_NAME")
	if name == "" {
		name = "hardshell"
	}
	base := strings.TrimRight(c.getenv("AWS_ENDPOINT_URL_STS"), "/")
	if base == "" {
		base = "https://sts." + c.Region + ".amazonaws.com"
	}
	form := url.Values{"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {role}, "RoleSessionName": {name},
		"WebIdentityToken": {strings.TrimSpace(string(token))}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/", strings.NewReader(form.Encode()))
	if err != nil {
		return Credentials{}, fault.New(fault.Upstream, "AWS_ENDPOINT_URL_STS is not a URL").WithCode("server_error")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	var answer struct {
		Result struct {
			Credentials struct{ AccessKeyId, SecretAccessKey, SessionToken, Expiration string }
		} `xml:"AssumeRoleWithWebIdentityResult"`
	}
	raw, err := fetch(tokenService, req)
	if err == nil {
		err = xml.Unmarshal(raw, &answer)
	}
	found := answer.Result.Credentials
	if err != nil || found.SecretAccessKey == "" {
		return Credentials{}, fault.New(fault.Upstream, "the AWS token service gave no credentials for the role %s", role).WithCode("server_error").
			WithTry("check the role's trust policy")
	}
	return ending(found.AccessKeyId, found.SecretAccessKey, found.SessionToken, found.Expiration), nil
}

// tokenService asks what may be behind a proxy.
var tokenService = &http.Client{
	Timeout:       lookup,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}
