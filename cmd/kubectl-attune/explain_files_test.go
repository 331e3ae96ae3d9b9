package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/internal/answers"
)

const csvHeader = "series_id,timestamp,cpu_cores,memory_bytes\n"

// steadyCSV returns a series of constant usage that ends at testNow.
func steadyCSV(series string, samples int, step time.Duration, usage string) string {
	var text strings.Builder
	for i := range samples {
		at := testNow.Add(-time.Duration(samples-1-i) * step).Unix()
		fmt.Fprintf(&text, "%s,%d,%s\n", series, at, usage)
	}
	return text.String()
}

// files are the input files of an offline run.
type files struct {
	t             *testing.T
	usage, policy string
}

func newFiles(t *testing.T, rows, policy string) files {
	t.Helper()
	dir := t.TempDir()
	f := files{t: t, usage: filepath.Join(dir, "samples.csv"), policy: filepath.Join(dir, "policy.yaml")}
	require.NoError(t, os.WriteFile(f.usage, []byte(csvHeader+rows), 0o600))
	require.NoError(t, os.WriteFile(f.policy, []byte(policy), 0o600))
	return f
}

// explain runs the verb without a cluster, and removes the names of the temporary files.
func (f files) explain(args ...string) answer {
	f.t.Helper()
	got := cliTest{t: f.t}.run(append([]string{"explain", "--usage", f.usage, "--policy", f.policy}, args...)...)
	got.errOut = strings.ReplaceAll(got.errOut, filepath.Dir(f.usage)+string(filepath.Separator), "")
	return got
}

// containers runs explain with JSON and parses it.
func (f files) containers(args ...string) []answers.ExplainedContainer {
	f.t.Helper()
	got := f.explain(append(args, "-o", "json")...)
	require.Equal(f.t, exitOK, got.code, got.errOut)
	var decoded answers.Explanation
	require.NoError(f.t, json.Unmarshal([]byte(got.out), &decoded))
	return decoded.Containers
}

const (
	policyHeader = "apiVersion: attune.io/v1alpha1\nkind: AttunePolicy\nmetadata: {name: p}\n"
	anyPolicy    = policyHeader + "spec: {targetRef: {kind: Deployment}}\n"
	// exactPolicy has samples every 4 minutes. 2016 of them are 5.6 days: confidence 0.8.
	exactPolicy = policyHeader + "spec: {targetRef: {kind: Deployment}, metricsSource: {queryStep: 4m}, cpu: {minAllowed: 1m, maxAllowed: 4}}\n"
)

// The worked example of the algorithm: 200m → 240m → × 1.04 → 250m, from 500m.
func TestExplainFilesWorkedExample(t *testing.T) {
	f := newFiles(t, steadyCSV("app", 2016, 4*time.Minute, "0.2,536870912"), exactPolicy)
	for name, args := range map[string][]string{
		"worked-example.json": {"-o", "json"},
		"worked-example.yaml": {"-o", "yaml"},
		"worked-example.txt":  {},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.explain(append(args, "--current", "cpu=500m,memory=1Gi", "--limits", "cpu=1,memory=2Gi")...)
			assert.Equal(t, exitOK, got.code)
			assert.Empty(t, got.errOut)
			golden(t, name, got.out)
		})
	}
}

// The strategy Adaptive is explained from files too: a day with a busy hour, and a burst two days ago.
func TestExplainFilesAdaptive(t *testing.T) {
	var rows strings.Builder
	for i := range 2016 {
		at := testNow.Add(-time.Duration(2015-i) * 5 * time.Minute)
		cores, bytes := 0.2, 500<<20
		switch {
		case at.Hour() == 9:
			cores, bytes = 0.6, 620<<20
		case i == 1500:
			cores, bytes = 1.4, 700<<20
		}
		fmt.Fprintf(&rows, "app,%d,%g,%d\n", at.Unix(), cores, bytes)
	}
	f := newFiles(t, rows.String(), policyHeader+"spec: {targetRef: {kind: Deployment}, strategy: Adaptive}\n")
	for name, args := range map[string][]string{"adaptive.json": {"-o", "json"}, "adaptive.txt": {}} {
		got := f.explain(append(args, "--current", "cpu=2,memory=1Gi", "--limits", "memory=2Gi")...)
		assert.Equal(t, exitOK, got.code)
		golden(t, name, got.out)
	}
	var targets []string
	for _, risk := range []string{"Low", "Medium", "High"} {
		f := newFiles(t, rows.String(), policyHeader+"spec: {targetRef: {kind: Deployment}, strategy: Adaptive, adaptive: {risk: "+risk+"}}\n")
		targets = append(targets, *f.containers("--current", "cpu=2,memory=1Gi")[0].Target.CPURequest)
	}
	assert.Equal(t, []string{"660m", "600m", "600m"}, targets, "greater risk, less reserved")
}

func TestExplainFilesUnpacksByName(t *testing.T) {
	rows := csvHeader + steadyCSV("app", 2016, 4*time.Minute, "0.2,536870912")
	f := newFiles(t, "", exactPolicy)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write([]byte(rows))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	f.usage += ".gz"
	require.NoError(t, os.WriteFile(f.usage, packed.Bytes(), 0o600))
	assert.Equal(t, "250m", *f.containers("--current", "cpu=500m,memory=1Gi")[0].Next.CPURequest)
}

func TestExplainFilesCountsGaps(t *testing.T) {
	rows := steadyCSV("app", 2014, 4*time.Minute, "0.2,") +
		fmt.Sprintf("app,%d,NaN,\napp,%d,,\n", testNow.Add(-4000*4*time.Minute).Unix(), testNow.Add(-3000*4*time.Minute).Unix())
	f := newFiles(t, rows, exactPolicy)
	got := f.explain("--current", "cpu=500m,memory=1Gi", "-o", "json")
	assert.Equal(t, "samples.csv: 2016 rows, 2 without cpu_cores, 2016 without memory_bytes, 2 out of order (sorted)\n", got.errOut)
	assert.Equal(t, exitOK, got.code)

	c := f.containers("--current", "cpu=500m,memory=1Gi")[0]
	assert.Equal(t, 2014, c.DataPoints)
	assert.Nil(t, c.Target.MemoryRequest, "never measured")
	assert.Nil(t, c.Next.MemoryRequest)
	assert.Equal(t, "1Gi", *c.Current.MemoryRequest)
	assert.Contains(t, got.out, `"memoryRequest": null`)
	assert.Equal(t, "NoData", c.Holds[0].Reason)
}

func TestExplainFilesHasOneContainerASeries(t *testing.T) {
	rows := steadyCSV("web/app", 2016, 5*time.Minute, "0.2,536870912") +
		steadyCSV("proxy", 2016, 5*time.Minute, "0.1,1000") +
		steadyCSV("web/cache", 2016, 5*time.Minute, ",536870912")
	f := newFiles(t, rows, policyHeader+"spec: {targetRef: {kind: Deployment}, excludedContainers: [proxy]}")
	containers := f.containers("--current", "cpu=500m,memory=1Gi")
	require.Len(t, containers, 2)
	assert.Equal(t, "web/app", containers[0].Name)
	assert.Equal(t, "240m", *containers[0].Target.CPURequest)
	assert.Equal(t, "web/cache", containers[1].Name)
	assert.Nil(t, containers[1].Target.CPURequest)
	assert.Contains(t, f.explain("--current", "cpu=1").errOut, "container proxy is skipped: the policy excludes it (excludedContainers, or mode Off in containerPolicies)\n")
}

func TestExplainFilesLooksAtTheWindowOnly(t *testing.T) {
	// Eight days. The first is loud and outside the window of 7 days, except for its last sample.
	loud := testNow.Add(-7 * 24 * time.Hour)
	rows := steadyCSV("app", 2016, 5*time.Minute, "0.2,1000")
	for i := range 288 {
		rows += fmt.Sprintf("app,%d,3,1000\n", loud.Add(-time.Duration(i)*5*time.Minute).Unix())
	}
	f := newFiles(t, rows, anyPolicy)
	c := f.containers("--current", "cpu=500m,memory=1Gi")[0]
	assert.Equal(t, 2016, c.DataPoints)
	assert.Equal(t, "240m", *c.Target.CPURequest)
	assert.InDelta(t, 1, c.Confidence, 1e-9)

	c = f.containers("--current", "cpu=500m,memory=1Gi", "--at", testNow.Add(-5*time.Minute).Format(time.RFC3339))[0]
	assert.Equal(t, 2016, c.DataPoints, "the window moves back by a step and what comes later is not looked at")
	assert.NotEqual(t, "240m", *c.Target.CPURequest, "a loud step is in it: a burst")
}

func TestExplainFilesAt(t *testing.T) {
	f := newFiles(t, steadyCSV("app", 2016, 5*time.Minute, "0.2,536870912"), anyPolicy)
	for name, c := range map[string]struct {
		at     time.Time
		reason string
		next   string
	}{
		"at the end":             {testNow, "", "250m"},
		"two steps and 10m late": {testNow.Add(20 * time.Minute), "", "250m"},
		"later":                  {testNow.Add(21 * time.Minute), "StaleData", "500m"},
		"before enough data":     {testNow.Add(-7*24*time.Hour + 47*5*time.Minute), "InsufficientData", "500m"},
		"before any data":        {testNow.Add(-30 * 24 * time.Hour), "NoData", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.containers("--current", "cpu=500m,memory=512Mi", "--at", c.at.Format(time.RFC3339))[0]
			var reason, next string
			if len(got.Holds) > 0 && got.Holds[0].Resource == "cpu" {
				reason = got.Holds[0].Reason
			}
			if got.Next.CPURequest != nil {
				next = *got.Next.CPURequest
			}
			assert.Equal(t, c.reason, reason)
			assert.Equal(t, c.next, next)
		})
	}
}

func TestExplainFilesDefaultsBelowThePolicy(t *testing.T) {
	f := newFiles(t, steadyCSV("app", 2016, 5*time.Minute, "0.2,536870912"), anyPolicy+`---
apiVersion: attune.io/v1alpha1
kind: AttuneNamespaceDefaults
metadata: {name: default}
spec: {cpu: {overhead: "50"}}
---
apiVersion: attune.io/v1alpha1
kind: AttuneDefaults
metadata: {name: default}
spec: {cpu: {overhead: "90", maxChangePercent: 10}}
`)
	c := f.containers("--current", "cpu=500m,memory=1Gi")[0]
	assert.Equal(t, "300m", *c.Target.CPURequest, "the namespace's overhead")
	assert.Equal(t, "450m", *c.Next.CPURequest, "the cluster's maximal change")
}

func TestExplainFilesCurrent(t *testing.T) {
	f := newFiles(t, steadyCSV("app", 2016, 5*time.Minute, "0.2,536870912"), anyPolicy)
	c := f.containers("--current", "memory=1Gi", "--limits", "cpu=1")[0]
	assert.Equal(t, "1", *c.Current.CPURequest, "a limit without a request is the request too")
	assert.Equal(t, "500m", *c.Next.CPULimit)

	c = f.containers("--current", "cpu=0,memory=1Gi")[0]
	assert.Nil(t, c.Current.CPURequest)
	assert.Equal(t, "240m", *c.Next.CPURequest, "what is not set takes the target at once")
}

// Every mistake in files and flags gives one sentence.
func TestExplainFilesMistakes(t *testing.T) {
	good := "app,1700000000,0.2,1000\n"
	spec := func(text string) string { return policyHeader + "spec: " + text + "\n" }
	current := []string{"--current", "cpu=500m,memory=1Gi"}
	cases := map[string]struct {
		rows, policy string
		args         []string
		want         string
	}{
		"no rows":         {"", anyPolicy, current, "samples.csv: the file has no samples: add one row per sample below the header"},
		"unknown field":   {good, spec("{targetRef: {kind: Deployment}, cpu: {percentil: 95}}"), current, "policy.yaml: unknown field spec.cpu.percentil: spec.cpu has the fields burstSensitivity, controlledValues, hpa, limits, maxAllowed, maxChangePercent, minAllowed, overhead, percentile, startupBoost"},
		"percent number":  {good, spec("{targetRef: {kind: Deployment}, cpu: {overhead: 20}}"), current, `policy.yaml: spec.cpu.overhead 20 must be a string: write "20"`},
		"no current":      {good, anyPolicy, nil, "to explain files, add --current cpu=500m,memory=1Gi"},
		"bad amount":      {good, anyPolicy, []string{"--current", "cpu=half"}, `invalid argument "cpu=half" for "--current" flag: cpu "half" is not a valid quantity: write e.g. cpu=500m: see kubectl attune explain --help`},
		"negative amount": {good, anyPolicy, []string{"--current", "memory=-1Gi"}, `invalid argument "memory=-1Gi" for "--current" flag: memory "-1Gi" is not a valid quantity: write e.g. memory=1Gi: see kubectl attune explain --help`},
		"bad resource":    {good, anyPolicy, []string{"--current", "gpu=1"}, `invalid argument "gpu=1" for "--current" flag: "gpu" is neither cpu nor memory: write e.g. cpu=500m,memory=1Gi: see kubectl attune explain --help`},
		"twice":           {good, anyPolicy, []string{"--current", "cpu=1,cpu=2"}, `invalid argument "cpu=1,cpu=2" for "--current" flag: cpu is specified twice: see kubectl attune explain --help`},
		"absurd amount":   {good, anyPolicy, []string{"--current", "cpu=1e30"}, `invalid argument "cpu=1e30" for "--current" flag: cpu "1e30" is above any node: write e.g. cpu=500m: see kubectl attune explain --help`},
		"no unit":         {good, anyPolicy, []string{"--current", "memory=512"}, `invalid argument "memory=512" for "--current" flag: memory "512" is below 1Mi: is a unit missing, e.g. memory=512Mi: see kubectl attune explain --help`},
		"no expression":   {good, anyPolicy, append([]string{"--pool", "(web"}, current...), "invalid argument \"(web\" for \"--pool\" flag: not a regular expression, e.g. ^(shop/web)-[^/]*(.*)$: error parsing regexp: missing closing ): `(web`: see kubectl attune explain --help"},
		"no pool":         {good, anyPolicy, append([]string{"--pool", "web, api"}, current...), `--pool "web, api" matches no series, e.g. "app": write a regular expression such as ^(shop/web)-[^/]*(.*)$`},
		"in the future":   {"app,9999999999,0.2,300000000\n", anyPolicy, current, "samples.csv: timestamps of 1 sample are in the future, up to 2286-11-20T17:46:39Z: correct the timestamps, or set --at"},
		"ms":              {good, anyPolicy, append([]string{"--at", "1767225600000"}, current...), `invalid argument "1767225600000" for "--at" flag: must be an RFC 3339 time, e.g. 2026-01-15T10:00:00Z: see kubectl attune explain --help`},
		"low limit":       {good, anyPolicy, append([]string{"--limits", "cpu=100m"}, current...), "--limits cpu=100m is below --current cpu=500m: a limit must not be below its request"},
		"bad time":        {good, anyPolicy, append([]string{"--at", "yesterday"}, current...), `invalid argument "yesterday" for "--at" flag: must be an RFC 3339 time, e.g. 2026-01-15T10:00:00Z: see kubectl attune explain --help`},
		"strategy":        {good, spec("{targetRef: {kind: Deployment}, strategy: Node}"), current, "policy.yaml: strategy Node is not supported without a cluster: use strategy Workload or Adaptive"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := newFiles(t, c.rows, c.policy).explain(c.args...)
			assert.Equal(t, answer{code: exitError, errOut: "error: " + c.want + "\n"}, got)
		})
	}
}

func TestExplainFilesMissingFlags(t *testing.T) {
	got := cliTest{t: t}.run("explain", "--limits", "cpu=1")
	assert.Equal(t, answer{
		code:   exitError,
		errOut: "error: to explain files, add --usage samples.csv and --policy policy.yaml and --current cpu=500m,memory=1Gi\n",
	}, got)
}

func TestExplainFilesThatAreNotThere(t *testing.T) {
	f := newFiles(t, "app,1700000000,0.2,1000\n", anyPolicy)
	require.NoError(t, os.Remove(f.usage))
	assert.Equal(t, "error: reading usage: open samples.csv: no such file or directory\n", f.explain("--current", "cpu=1").errOut)
	require.NoError(t, os.Remove(f.policy))
	assert.Equal(t, "error: reading the policy: open policy.yaml: no such file or directory\n", f.explain("--current", "cpu=1").errOut)
}

// Messages of the sample reader and of the policy resolver are printed with the file name, in one line.
func TestExplainFilesPrintsMessagesOfReaders(t *testing.T) {
	const good = "app,1700000000,0.2,1000\n"
	for name, c := range map[string]struct{ rows, spec, want string }{
		"bad row":               {good + "app,1700000300,fast,1000\n", "{targetRef: {kind: Deployment}}", `samples.csv: line 3: cpu_cores "fast"`},
		"negative":              {good + "app,1700000300,0.2,-1\n", "{targetRef: {kind: Deployment}}", `samples.csv: line 3: memory_bytes "-1"`},
		"missing field":         {good + "app,1700000300,0.2\n", "{targetRef: {kind: Deployment}}", `samples.csv: line 3: 3 fields`},
		"percent":               {good, `{targetRef: {kind: Deployment}, cpu: {overhead: "20%"}}`, "policy.yaml: cpu.overhead 20% "},
		"percentile":            {good, "{targetRef: {kind: Deployment}, cpu: {percentile: 197}}", "policy.yaml: cpu.percentile 197 "},
		"minimum above maximum": {good, "{targetRef: {kind: Deployment}, cpu: {minAllowed: 2, maxAllowed: 900m}}", "policy.yaml: cpu.minAllowed 2 "},
		"empty selector":        {good, "{targetRef: {kind: Deployment, selector: {}}}", "policy.yaml: targetRef.selector "},
		"unknown kind":          {good, "{targetRef: {kind: Pod}}", "policy.yaml: targetRef.kind "},
		"time zone":             {good, "{targetRef: {kind: Deployment}, updateStrategy: {schedule: {timezone: Mars/Olympus}}}", "policy.yaml: updateStrategy.schedule.timezone "},
	} {
		t.Run(name, func(t *testing.T) {
			got := newFiles(t, c.rows, policyHeader+"spec: "+c.spec).explain("--current", "cpu=1")
			assert.Equal(t, exitError, got.code)
			assert.True(t, strings.HasPrefix(got.errOut, "error: "+c.want), got.errOut)
			assert.Equal(t, 1, strings.Count(got.errOut, "\n"), "one line")
			assert.Empty(t, got.out)
		})
	}
}

func TestExplainDropsSamplesThatCannotBeTrue(t *testing.T) {
	const policy = "apiVersion: attune.io/v1alpha1\nkind: AttunePolicy\nmetadata: {name: p, namespace: shop}\nspec:\n  targetRef: {kind: Deployment, name: web}\n" +
		"  memory: {allowDecrease: true}\n"
	const size = "cpu=500m,memory=512Mi"
	reasons := func(c answers.ExplainedContainer) (out []string) {
		for _, h := range c.Holds {
			out = append(out, h.Resource+" "+h.Reason)
		}
		return out
	}
	t.Run("1,600 cores", func(t *testing.T) {
		f := newFiles(t, steadyCSV("app", 2016, 5*time.Minute, "1600,300000000"), policy)
		c := f.containers("--current", size, "--limits", "cpu=2,memory=1Gi")[0]
		assert.Nil(t, c.Target.CPURequest)
		assert.Equal(t, []string{"cpu UsageImplausible"}, reasons(c)[:1])
		assert.Contains(t, c.Holds[0].Message, "100 % of the cpu samples of the last day were dropped, up to 1600 cores: no container can use more than 1024 cores.")
		got := f.explain("--current", size)
		assert.Contains(t, got.errOut, "app: 2016 cpu samples were dropped, up to 1600 cores: no container can use more than 1024 cores")
	})
	t.Run("10 TiB once", func(t *testing.T) {
		rows := steadyCSV("app", 2016, 5*time.Minute, "0.1,300000000")
		at := fmt.Sprintf("app,%d,", testNow.Add(-time.Hour).Unix())
		rows = strings.Replace(rows, at+"0.1,300000000", at+"0.1,10995116277760", 1)
		f := newFiles(t, rows, policy)
		c := f.containers("--current", size, "--limits", "memory=1Gi")[0]
		require.NotNil(t, c.Target.MemoryRequest)
		assert.Equal(t, "372Mi", *c.Target.MemoryRequest)
		got := f.explain("--current", size)
		assert.Contains(t, got.errOut, "app: 1 memory samples were dropped, up to 10Ti")
	})
	t.Run("memory of 0", func(t *testing.T) {
		c := newFiles(t, steadyCSV("app", 2016, 5*time.Minute, "0.01,0"), policy).containers("--current", size)[0]
		assert.Nil(t, c.Target.MemoryRequest)
		assert.Contains(t, reasons(c), "memory NoData")
	})
	t.Run("40 cores on a node of 8", func(t *testing.T) {
		f := newFiles(t, steadyCSV("app", 2016, 5*time.Minute, "40,300000000"), policy)
		assert.NotNil(t, f.containers("--current", size)[0].Target.CPURequest, "no node is known")
		assert.Nil(t, f.containers("--current", size, "--node", "cpu=8,memory=32Gi")[0].Target.CPURequest)
	})
}

// Whole files with a wrong unit get no target, and the cause and the fix are in the hold and in a note.
func TestExplainNamesWrongUnits(t *testing.T) {
	current := []string{"--current", "cpu=500m,memory=512Mi", "--limits", "cpu=1,memory=1Gi"}
	var counter strings.Builder
	for i := range 2016 {
		fmt.Fprintf(&counter, "app,%d,%.1f,300000000\n", testNow.Add(-time.Duration(2015-i)*5*time.Minute).Unix(), 10234.1+90*float64(i))
	}
	steady := func(usage string) string { return steadyCSV("app", 2016, 5*time.Minute, usage) }
	for name, c := range map[string]struct{ rows, resource, message string }{
		"millicores": {steady("300,300000000"), "cpu", "up to 300 cores: the median is 600 times the current 500m. If cpu_cores is in millicores, divide it by 1000; if the samples are right, set --node. Lifted when"},
		"percent":    {steady("30,300000000"), "cpu", "up to 30 cores: the median is 60 times the current 500m. If cpu_cores is in percent of a core, divide it by 100; if the samples are right, set --node. Lifted when"},
		"nanocores":  {steady("251362897,300000000"), "cpu", "up to 251362897 cores: no container can use more than 1024 cores. If cpu_cores is in nanocores, divide it by 1000000000. Lifted when"},
		"a counter":  {counter.String(), "cpu", "up to 191584.1 cores: cpu_cores only rises, as a counter of CPU seconds does. Use rate(container_cpu_usage_seconds_total[5m]). Lifted when"},
		"MiB":        {steady("0.3,286.1"), "memory", "up to 286.1: all samples are below 1Mi. If memory_bytes is in MiB, multiply it by 1048576. Lifted when"},
		"KiB":        {steady("0.3,292968"), "memory", "up to 286.1Ki: all samples are below 1Mi. If memory_bytes is in KiB, multiply it by 1024. Lifted when"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFiles(t, c.rows, policyHeader+"spec: {targetRef: {kind: Deployment}, memory: {allowDecrease: true}}\n")
			got := f.containers(current...)[0]
			require.NotEmpty(t, got.Holds)
			assert.Equal(t, []string{c.resource, "UsageImplausible"}, []string{got.Holds[0].Resource, got.Holds[0].Reason})
			assert.Contains(t, got.Holds[0].Message, c.message)
			target, next, has := got.Target.CPURequest, got.Next.CPURequest, "500m"
			if c.resource == "memory" {
				target, next, has = got.Target.MemoryRequest, got.Next.MemoryRequest, "512Mi"
			}
			assert.Nil(t, target)
			assert.Equal(t, has, *next)
			note, _, _ := strings.Cut(c.message, ". Lifted when")
			assert.Contains(t, f.explain(current...).errOut, "app: 2016 "+c.resource+" samples were dropped, "+note+"\n")
		})
	}
}

// A row with a wrong time does not make the others too old.
func TestExplainLeavesOutTheFuture(t *testing.T) {
	f := newFiles(t, steadyCSV("app", 2016, 5*time.Minute, "0.2,536870912")+"app,9999999999,0.2,536870912\n", anyPolicy)
	got := f.explain("--current", "cpu=500m,memory=1Gi")
	assert.Equal(t, "samples.csv: timestamps of 1 sample are in the future, up to 2286-11-20T17:46:39Z, and were left out: correct the timestamps, or set --at\n", got.errOut)
	c := f.containers("--current", "cpu=500m,memory=1Gi")[0]
	assert.Equal(t, 2016, c.DataPoints)
	assert.Equal(t, "240m", *c.Target.CPURequest)

	// A clock that is half an hour ahead is no mistake.
	f = newFiles(t, steadyCSV("app", 2016, 5*time.Minute, "0.2,536870912")+fmt.Sprintf("app,%d,0.2,536870912\n", testNow.Add(30*time.Minute).Unix()), anyPolicy)
	assert.Empty(t, f.explain("--current", "cpu=500m,memory=1Gi").errOut)
}

// Replicas are explained as one container, by the highest replica of each time.
func TestExplainPoolsReplicas(t *testing.T) {
	var rows strings.Builder
	for i := range 5 {
		rows.WriteString(steadyCSV(fmt.Sprintf("shop/web-7c9d8-0000%d/app", i), 2016, 5*time.Minute, fmt.Sprintf("0.%d,300000000", i+1)))
	}
	f := newFiles(t, rows.String(), anyPolicy)
	current := []string{"--current", "cpu=500m,memory=1Gi"}
	hint := "5 series seem to be replicas of shop/web/app: pool them with --pool '^(shop/web)-[^/]*(.*)$'"
	assert.Equal(t, "samples.csv: "+hint+"\n", f.explain(current...).errOut)
	assert.Len(t, f.containers(current...), 5)
	got := f.containers(append(current, "--pool", "^(shop/web)-[^/]*(.*)$")...)
	require.Len(t, got, 1)
	assert.Equal(t, "shop/web/app", got[0].Name)
	assert.Equal(t, "600m", *got[0].Target.CPURequest)
	assert.Empty(t, f.explain(append(current, "--pool", "^(shop/web)-[^/]*(.*)$")...).errOut)
}

// A policy that is valid and probably not meant is noted, as at its admission.
func TestExplainNotesRemarksOfThePolicy(t *testing.T) {
	f := newFiles(t, steadyCSV("app", 2016, 5*time.Minute, "0.2,300000000"), policyHeader+`spec: {targetRef: {kind: Deployment}, cpu: {minAllowed: "250"}, updateStrategy: {type: Initial, cooldown: 2h}}`+"\n")
	const notes = "policy.yaml: cpu.minAllowed 250 is more CPU than most nodes have. Write millicores with their unit, e.g. 250m\n" +
		"policy.yaml: updateStrategy.cooldown: no effect with updateStrategy.type Initial. Remove the fields from the policy\n"
	assert.Equal(t, notes, f.explain("--current", "cpu=500m").errOut)
	assert.Equal(t, notes, f.backtest("--policy", f.policy).errOut)
}

func TestExplainNotesSamplesWithoutPeaks(t *testing.T) {
	f := newFiles(t, steadyCSV("app", 7, 24*time.Hour, "0.2,300000000"), anyPolicy)
	assert.Contains(t, f.explain("--current", "cpu=500m").errOut, "app: one sample per 24h0m0s: peaks in between are missing\n")
}
