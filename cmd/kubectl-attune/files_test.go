package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every parser of a user's file names the file, the position and a valid example: a line of a table, a field of an
// object.
func TestFilesThatAreWrong(t *testing.T) {
	const header, row = "series_id,timestamp,cpu_cores,memory_bytes\n", "web,1700000000,0.25,268435456\n"
	policyOf := func(spec string) string { return policyHeader + "spec: " + spec + "\n" }
	readers := map[string]struct {
		args []string
		// files maps each kind of mistake to a file.
		files map[string][2]string
	}{
		"usage.csv": {
			args: []string{"explain --usage usage.csv --policy good.yaml --current cpu=1", "backtest --trace usage.csv", "backtest --trace usage.csv --sweep risk=1"},
			files: map[string][2]string{
				"a number":        {header + strings.Repeat(row, 15) + "web,1700000300,abc,1\n", `usage.csv: line 17: cpu_cores "abc" is not a number of cores: use e.g. 0.25`},
				"a quantity":      {header + row + "web,1700000300,0.2,1Gi\n", `usage.csv: line 3: memory_bytes "1Gi" is not a number of bytes: use e.g. 1073741824`},
				"a negative":      {header + "web,1700000300,-1,1\n", `usage.csv: line 2: cpu_cores "-1" is negative: use e.g. 0.25`},
				"a date":          {header + "web,2023-11-14T22:13:20Z,1,1\n", `usage.csv: line 2: timestamp "2023-11-14T22:13:20Z" is not a time in Unix seconds, e.g. 1700000000`},
				"a field less":    {header + row + "web,1700000300,0.2\n", "usage.csv: line 3: 3 fields instead of 4"},
				"a quote":         {header + "we\"b,1700000300,1,1\n", "usage.csv: line 2: bare \" in non-quoted-field: quote the name"},
				"another header":  {"time,cpu\n", `usage.csv: line 1: the header is "time,cpu": it must be "series_id,timestamp,cpu_cores,memory_bytes"`},
				"JSON":            {`{"status":"success","data":{"resultType":"matrix"}}`, "usage.csv: line 1: the file is JSON, e.g. an answer of Prometheus: convert it to CSV"},
				"gzip":            {"\x1f\x8b\x08", "usage.csv: line 1: the file is compressed with gzip: rename it to usage.csv.gz"},
				"zip":             {"PK\x03\x04\x14\x00", "usage.csv: line 1: the file is compressed with zip: unpack it\n"},
				"a header only":   {header, "usage.csv: the file has no samples: add one row per sample below the header\n"},
				"an empty one":    {"", "usage.csv: line 1: the file is empty: it must begin with the header"},
				"nothing to read": {"-", "reading usage: open usage.csv: no such file or directory"},
			},
		},
		"usage.csv.gz": {
			args:  []string{"explain --usage usage.csv.gz --policy good.yaml --current cpu=1", "backtest --trace usage.csv.gz"},
			files: map[string][2]string{"no gzip": {header + row, "usage.csv.gz: the name ends in .gz, but the content is not gzip (gzip: invalid header): rename or compress the file"}},
		},
		"policy.yaml": {
			args: []string{"explain --usage good.csv --policy policy.yaml --current cpu=1", "backtest --trace good.csv --policy policy.yaml"},
			files: map[string][2]string{
				"a line":          {policyHeader + "spec: {targetRef\n  x: [\n", "policy.yaml: invalid YAML: yaml: line "},
				"a field":         {policyOf("{targetRef: {kind: Deployment}, cpu: {percentil: 95}}"), "policy.yaml: unknown field spec.cpu.percentil: spec.cpu has the fields "},
				"a value":         {policyOf("{targetRef: {kind: Deployment}, cpu: {percentile: 197}}"), "policy.yaml: cpu.percentile 197 "},
				"another kind":    {"apiVersion: attune.io/v1alpha1\nkind: Policy\n", `policy.yaml: kind "Policy" is not supported here: use AttunePolicy`},
				"a VPA":           {"apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\nmetadata: {name: web}\n", "policy.yaml: a VerticalPodAutoscaler is not a policy: convert it with kubectl attune import vpa"},
				"a list of VPAs":  {"apiVersion: v1\nkind: List\nitems: [{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler}]\n", "policy.yaml: items[0]: a VerticalPodAutoscaler is not a policy: convert it"},
				"an empty list":   {"apiVersion: v1\nkind: List\nitems: []\n", "policy.yaml: the file has no AttunePolicy: add a document"},
				"two in a list":   {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: attune.io/v1alpha1, kind: AttunePolicy}\n- {apiVersion: attune.io/v1alpha1, kind: AttunePolicy}\n", "policy.yaml: items[1]: the file has a second AttunePolicy: keep one of them"},
				"a kind of VPAs":  {"apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscalerList\nitems: [{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler}]\n", "policy.yaml: items[0]: a VerticalPodAutoscaler is not a policy: convert it"},
				"an HPA":          {"apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\n", "policy.yaml: a HorizontalPodAutoscaler is not a policy: use a file with an AttunePolicy"},
				"nothing":         {"", "policy.yaml: the file has no AttunePolicy: add a document"},
				"nothing to read": {"-", "reading the policy: open policy.yaml: no such file or directory"},
			},
		},
		"demands.yaml": {
			args: []string{"node --file demands.yaml"},
			files: map[string][2]string{
				"a line":          {"pods:\n- name: a\n  containers: [\n", "demands.yaml: invalid YAML: yaml: line "},
				"a field":         {"pods: [{name: a, containers: [{name: b, cpus: {base: 1}}]}]\n", "demands.yaml: unknown field pods[0].containers[0].cpus: pods[0].containers[0] has the fields "},
				"a value":         {"pods: [{name: a, containers: [{name: b, cpu: {base: half, peak: 1}}]}]\n", `demands.yaml: pods[0].containers[0].cpu.base "half"`},
				"nothing":         {"", "demands.yaml: the file has no demands: write allocatable and pods"},
				"nothing to read": {"-", "reading the demands: open demands.yaml: no such file or directory"},
			},
		},
	}
	for name, reader := range readers {
		for way, file := range reader.files {
			for _, args := range reader.args {
				t.Run(name+"/"+way+"/"+args, func(t *testing.T) {
					t.Chdir(t.TempDir())
					for path, text := range map[string]string{"good.csv": header + row, "good.yaml": anyPolicy, name: file[0]} {
						if text != "-" {
							require.NoError(t, os.WriteFile(filepath.Clean(path), []byte(text), 0o600))
						}
					}
					got := cliTest{t: t}.run(strings.Fields(args)...)
					assert.Equal(t, exitError, got.code)
					assert.Empty(t, got.out)
					assert.True(t, strings.HasPrefix(got.errOut, "error: "+file[1]), got.errOut)
					assert.Equal(t, 1, strings.Count(got.errOut, "\n"), "one line: %s", got.errOut)
				})
			}
		}
	}
}

// No file of samples ends a verb with a panic.
func FuzzFilesOfSamples(f *testing.F) {
	for _, usage := range []string{"0.1,1e8", "1e308,1e308", "5e-324,5e-324", "300,286.1", "0,0", ",", "-0,1e300", "1e18,9e15"} {
		f.Add("0.2,300000000", usage, uint16(300))
	}
	f.Fuzz(func(t *testing.T, usual, other string, seconds uint16) {
		var rows strings.Builder
		for i := range int64(100) {
			usage := usual
			if i%9 == 8 {
				usage = other
			}
			fmt.Fprintf(&rows, "app,%d,%s\n", testNow.Unix()+(i-99)*int64(seconds), usage)
		}
		files := newFiles(t, rows.String(), anyPolicy)
		for _, got := range []answer{files.explain("--current", "cpu=500m,memory=1Gi"), files.backtest("--peers", "--warmup", "1h", "--policy", files.policy)} {
			assert.Contains(t, []int{exitOK, exitError}, got.code)
		}
	})
}
