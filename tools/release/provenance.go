package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

const provenance = "provenance.json"

type (
	// slsa is the predicate of SLSA provenance v1 (https://slsa.dev/spec/v1.0/provenance). Cosign adds the subject.
	slsa struct {
		BuildDefinition buildDefinition `json:"buildDefinition"`
		RunDetails      runDetails      `json:"runDetails"`
	}
	buildDefinition struct {
		BuildType            string         `json:"buildType"`
		ExternalParameters   map[string]any `json:"externalParameters"`
		InternalParameters   map[string]any `json:"internalParameters"`
		ResolvedDependencies []resource     `json:"resolvedDependencies"`
	}
	resource struct {
		URI    string            `json:"uri"`
		Digest map[string]string `json:"digest,omitempty"`
	}
	runDetails struct {
		Builder  builder  `json:"builder"`
		Metadata metadata `json:"metadata"`
	}
	builder struct {
		ID string `json:"id"`
	}
	metadata struct {
		InvocationID string `json:"invocationId"`
	}
)

// provenance says from what, how and where the release is built. A workflow of GitHub names itself in the environment.
func (r Release) provenance(environment func(string) string) slsa {
	source := resource{URI: "git+" + r.URL + "@refs/tags/" + r.Version, Digest: map[string]string{"gitCommit": r.Commit}}
	p := slsa{
		buildDefinition{
			BuildType:            r.URL + "/blob/" + r.Commit + "/RELEASE.md",
			ExternalParameters:   map[string]any{"version": r.Version, "source": source},
			InternalParameters:   map[string]any{"goVersion": runtime.Version(), "registry": r.Registry},
			ResolvedDependencies: []resource{source, {URI: "pkg:golang/stdlib@" + strings.TrimPrefix(runtime.Version(), "go")}},
		},
		runDetails{builder{r.URL + "/blob/" + r.Commit + "/Makefile"}, metadata{"local"}},
	}
	if server, repository := environment("GITHUB_SERVER_URL"), environment("GITHUB_REPOSITORY"); server != "" {
		p.RunDetails.Builder.ID = server + "/" + strings.SplitN(environment("GITHUB_WORKFLOW_REF"), "@", 2)[0]
		p.RunDetails.Metadata.InvocationID = server + "/" + repository + "/actions/runs/" + environment("GITHUB_RUN_ID") + "/attempts/" + environment("GITHUB_RUN_ATTEMPT")
	}
	return p
}

func (r Release) writeProvenance() error {
	text, err := json.MarshalIndent(r.provenance(os.Getenv), "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.Out, provenance), append(text, '\n'), 0o644)
}
