package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
)

// rule is one of the CRDs' own: what it lets in, and what it answers to what it refuses.
type rule struct {
	field     string // that the answer names
	good, bad []string
	sentence  string
}

const prometheus = `metricsSource: {prometheus: {address: %q}}`

// spans is the rule of a duration, with the values at its ends and just beyond them.
func spans(field, spec, sentence string, good, bad []string) rule {
	bad = append(bad, "soon", "", "-1h", "1d", "1h 30m", "99999999999h", "1e3s", "h")
	r := rule{field: field, sentence: sentence}
	for _, v := range append(good, "1h", "60m", "3600s", "0.5h30m") {
		r.good = append(r.good, fmt.Sprintf(spec, v))
	}
	for _, v := range bad {
		r.bad = append(r.bad, fmt.Sprintf(spec, v))
	}
	return r
}

// decimals is the rule of a decimal number in a string.
func decimals(field, spec, sentence string, good, bad []string) rule {
	r := rule{field: field, sentence: sentence}
	for _, v := range good {
		r.good = append(r.good, fmt.Sprintf(spec, v))
	}
	for _, v := range append(bad, "", "NaN", "Inf", "1e1", "0x1", "1,5", " 1", "1%", ".5", "5.", "+1") {
		r.bad = append(r.bad, fmt.Sprintf(spec, v))
	}
	return r
}

// kindRule is about the kinds that always are sized, and about those that the operator's owner may add.
var kindRule = rule{"spec.targetRef.kind", []string{`targetRef: {kind: Rollout}`, `targetRef: {kind: CloneSet.apps.kruise.io}`, `targetRef: {kind: StatefulSet.apps.kruise.io}`, `targetRef: {kind: Kafka2.a-b.example}`},
	[]string{`targetRef: {kind: Pod}`, `targetRef: {kind: deployment}`, `targetRef: {kind: Deployment.apps}`, `targetRef: {kind: CloneSet.Apps.kruise.io}`, `targetRef: {kind: "*.apps.kruise.io"}`, `targetRef: {kind: CloneSet.apps.kruise.io.}`, `targetRef: {kind: CloneSet.apps..io}`, `targetRef: {kind: clone-sets.apps.kruise.io}`},
	"targetRef.kind must be Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, CronJob, Rollout, or KIND.GROUP of a kind that the chart's value scaledKinds adds, such as CloneSet.apps.kruise.io"}

func policyRules() []rule {
	return []rule{
		{"spec.targetRef", []string{`targetRef: {kind: Job, name: a}`, `targetRef: {kind: Job, selector: {matchLabels: {a: b}}}`, `targetRef: {kind: Job}`},
			[]string{`targetRef: {kind: Job, name: a, selector: {matchLabels: {a: b}}}`},
			"targetRef must not have both name and selector: remove one of them"},
		kindRule,
		{"spec.targetRef.selector", []string{`targetRef: {kind: Job, selector: {matchExpressions: [{key: a, operator: Exists}]}}`},
			[]string{`targetRef: {kind: Job, selector: {}}`, `targetRef: {kind: Job, selector: {matchLabels: {}}}`, `targetRef: {kind: Job, selector: {matchLabels: {}, matchExpressions: []}}`},
			"targetRef.selector must not be empty: leave it out to target every workload of the kind, or set matchLabels, e.g. {tier: api}"},

		{"spec.metricsSource", []string{`metricsSource: {historyWindow: 720h, queryStep: 20s}`, `metricsSource: {queryStep: 10s}`, `metricsSource: {historyWindow: 1h, queryStep: 10s}`},
			[]string{`metricsSource: {historyWindow: 720h, queryStep: 10s}`, `metricsSource: {historyWindow: 365h, queryStep: 10s}`},
			"historyWindow must have at most 131072 samples at queryStep, e.g. 720h at 20s; the operator may allow fewer (usage.limits.steps)"},
		{"spec.metricsSource.labels", []string{`metricsSource: {labels: {cluster: eu-1, job: kubelet}}`, `metricsSource: {labels: {}}`},
			[]string{`metricsSource: {labels: {pod: x}}`, `metricsSource: {labels: {namespace: x}}`, `metricsSource: {labels: {a-b: x}}`, `metricsSource: {labels: {cluster: ""}}`},
			"labels must be names of labels other than namespace, pod and container, each with the value that every series has, e.g. {cluster: eu-1}"},
		spans("spec.metricsSource.historyWindow", `metricsSource: {historyWindow: %q}`, "historyWindow must be a duration between 1h and 720h, e.g. 168h", []string{"720h", "168h", "1h0m0s"}, []string{"59m59s", "720h1s"}),
		spans("spec.metricsSource.queryStep", `metricsSource: {queryStep: %q}`, "queryStep must be a duration between 10s and 1h, e.g. 5m", []string{"10s", "5m"}, []string{"9s", "1h1s", "0s"}),
		spans("spec.metricsSource.rateWindow", `metricsSource: {historyWindow: 720h, rateWindow: %q}`, "rateWindow must be a duration of at least 30s and at most historyWindow, e.g. 5m", []string{"30s", "720h"}, []string{"29s", "721h"}),
		spans("spec.updateStrategy.cooldown", `updateStrategy: {cooldown: %q}`, "cooldown must be a duration between 1m and 720h, e.g. 1h", []string{"1m", "60s", "720h"}, []string{"59s", "720h1s"}),
		spans("spec.updateStrategy.safetyObservationPeriod", `updateStrategy: {safetyObservationPeriod: %q}`, "safetyObservationPeriod must be a duration between 1m and 24h, e.g. 5m", []string{"1m", "24h"}, []string{"59s", "25h"}),
		spans("spec.updateStrategy.canary.observationPeriod", `updateStrategy: {canary: {observationPeriod: %q}}`, "canary.observationPeriod must be a duration between 1m and 24h, e.g. 30m", []string{"1m", "24h"}, []string{"59s", "25h"}),
		spans("spec.cpu.startupBoost.duration", `cpu: {startupBoost: {multiplier: "2", duration: %q}}`, "startupBoost.duration must be a duration between 1s and 1h, e.g. 2m", []string{"1s", "1000ms"}, []string{"999ms", "1h1s"}),

		decimals("spec.cpu.overhead", `cpu: {overhead: %q}`, "overhead must be a percentage from 0 to 1000 as a string without the sign, e.g. '20'", []string{"0", "20", "12.5", "1000"}, []string{"1000.1", "-1", "20%"}),
		decimals("spec.memory.overhead", `memory: {overhead: %q}`, "overhead must be a percentage from 0 to 1000 as a string without the sign, e.g. '20'", []string{"30"}, []string{"9999"}),
		decimals("spec.cpu.burstSensitivity", `cpu: {burstSensitivity: %q}`, "burstSensitivity must be a decimal number from 0 to 10 as a string, e.g. '0.1'", []string{"0", "0.1", "10"}, []string{"10.1", "-0.1"}),
		decimals("spec.cpu.startupBoost.multiplier", `cpu: {startupBoost: {multiplier: %q, duration: 1m}}`, "startupBoost.multiplier must be a decimal number from 1 to 100 as a string, e.g. '2'", []string{"1", "1.5", "100"}, []string{"0.9", "100.1"}),
		decimals("spec.sloGuardrails[0].threshold", `sloGuardrails: [{name: a, query: up, comparison: "<", threshold: %q}]`, "threshold must be a decimal number as a string, e.g. '99.9'", []string{"-0.5", "0", "99.9"}, []string{"--1", "1-"}),

		{"spec.cpu.minAllowed", []string{`cpu: {minAllowed: 50m}`, `cpu: {minAllowed: 1}`, `cpu: {minAllowed: "0.5"}`}, []string{`cpu: {minAllowed: 0}`, `cpu: {minAllowed: "0"}`, `cpu: {minAllowed: -1}`, `cpu: {minAllowed: -50m}`},
			"minAllowed must be a quantity greater than 0, e.g. 50m or 64Mi"},
		{"spec.memory.maxAllowed", []string{`memory: {maxAllowed: 8Gi}`, `memory: {maxAllowed: 4}`, `memory: {maxAllowed: 1e9}`}, []string{`memory: {maxAllowed: 0}`, `memory: {maxAllowed: -8Gi}`},
			"maxAllowed must be a quantity greater than 0, e.g. 4 or 8Gi"},
		{"spec.cpu", []string{`cpu: {minAllowed: 900m, maxAllowed: 2}`, `cpu: {minAllowed: 1000m, maxAllowed: 1}`, `cpu: {minAllowed: 9}`},
			[]string{`cpu: {minAllowed: 2, maxAllowed: 900m}`, `cpu: {minAllowed: "10", maxAllowed: 9}`},
			"cpu.minAllowed must be less than or equal to cpu.maxAllowed"},
		{"spec.memory", []string{`memory: {minAllowed: 900Mi, maxAllowed: 2Gi}`, `memory: {minAllowed: 1024Mi, maxAllowed: 1Gi}`},
			[]string{`memory: {minAllowed: 2Gi, maxAllowed: 900Mi}`, `memory: {minAllowed: 1G, maxAllowed: 1M}`},
			"memory.minAllowed must be less than or equal to memory.maxAllowed"},
		{"spec.memory.hpa", []string{`memory: {hpa: Keep}`, `cpu: {hpa: Retarget}`}, []string{`memory: {hpa: Retarget}`},
			"memory.hpa Retarget is not one of Block or Keep: only cpu.hpa may be Retarget, e.g. memory.hpa: Keep"},

		{"spec.metricsSource.prometheus.address", []string{fmt.Sprintf(prometheus, "http://prometheus.monitoring:9090"), fmt.Sprintf(prometheus, "https://mimir.example.com/prometheus")},
			[]string{fmt.Sprintf(prometheus, ""), fmt.Sprintf(prometheus, "prometheus:9090"), fmt.Sprintf(prometheus, "ftp://prometheus"), fmt.Sprintf(prometheus, "http://"), fmt.Sprintf(prometheus, "/prometheus"), fmt.Sprintf(prometheus, "http://a b")},
			"prometheus.address must be a URL that begins with http:// or https://, e.g. http://prometheus.monitoring:9090"},
		{"spec.metricsSource.prometheus", []string{`metricsSource: {prometheus: {bearerTokenSecret: {name: a, key: b}}}`, `metricsSource: {prometheus: {basicAuth: {username: a, passwordSecret: {name: a, key: b}}}}`},
			[]string{`metricsSource: {prometheus: {bearerTokenSecret: {name: a, key: b}, basicAuth: {username: a, passwordSecret: {name: a, key: b}}}}`},
			"prometheus must not have both bearerTokenSecret and basicAuth: remove one of them"},

		{"spec.updateStrategy.maxConcurrentResizes", []string{`updateStrategy: {maxConcurrentResizes: 1}`, `updateStrategy: {maxConcurrentResizes: 1000}`, `updateStrategy: {maxConcurrentResizes: "1%"}`, `updateStrategy: {maxConcurrentResizes: "100%"}`},
			[]string{`updateStrategy: {maxConcurrentResizes: 0}`, `updateStrategy: {maxConcurrentResizes: -1}`, `updateStrategy: {maxConcurrentResizes: "0%"}`, `updateStrategy: {maxConcurrentResizes: "101%"}`, `updateStrategy: {maxConcurrentResizes: "5"}`, `updateStrategy: {maxConcurrentResizes: "all"}`},
			"maxConcurrentResizes must be a number of at least 1 or a percentage from 1% to 100%, e.g. 10%"},

		{"spec.updateStrategy.schedule.windows[0].start", []string{window("00:00", "23:59")}, []string{window("24:00", "06:00"), window("9:00", "10:00"), window("22:60", "06:00"), window("", "06:00"), window("22", "06:00")},
			"schedule.windows start must be a time of day as HH:MM, e.g. 22:00"},
		{"spec.updateStrategy.schedule.windows[0].end", []string{window("23:59", "00:00")}, []string{window("22:00", "24:00"), window("22:00", "6:00"), window("22:00", "noon")},
			"schedule.windows end must be a time of day as HH:MM, e.g. 06:00"},
		{"spec.updateStrategy.schedule.windows[0]", []string{window("06:00", "06:01")}, []string{window("06:00", "06:00")},
			"schedule.windows start and end must differ, e.g. 22:00 and 06:00; leave windows out for the whole day"},
	}
}

func window(start, end string) string {
	return fmt.Sprintf(`updateStrategy: {schedule: {windows: [{start: %q, end: %q}]}}`, start, end)
}

func defaultsRules() []rule {
	return []rule{
		decimals("spec.costPricing.cpuPerCoreHour", `costPricing: {cpuPerCoreHour: %q}`, "costPricing.cpuPerCoreHour must be a decimal number from 0 to 1000000 as a string, e.g. '0.031'", []string{"0", "0.0316"}, []string{"1000001", "-1", "$1"}),
		decimals("spec.costPricing.memoryPerGiBHour", `costPricing: {memoryPerGiBHour: %q}`, "costPricing.memoryPerGiBHour must be a decimal number from 0 to 1000000 as a string, e.g. '0.004'", []string{"0.0042"}, []string{"1000001", "-1"}),
	}
}

// checkRules puts the values of every rule before the API server, and returns the sentences it answered.
func checkRules(t *testing.T, rules []rule, build func(*testing.T, string) *unstructured.Unstructured) map[string]bool {
	c := newClient(t)
	told := map[string]bool{}
	for _, r := range rules {
		t.Run(r.field, func(t *testing.T) {
			require.NotEmpty(t, r.good)
			require.NotEmpty(t, r.bad)
			for _, spec := range r.good {
				assert.NoError(t, c.Create(t.Context(), build(t, spec), client.DryRunAll), spec)
			}
			for _, spec := range r.bad {
				err := c.Create(t.Context(), build(t, spec), client.DryRunAll)
				assertOneCause(t, err, r.field, r.sentence, spec)
				told[r.sentence] = true
			}
		})
	}
	return told
}

func TestRulesOfPolicies(t *testing.T) {
	told := checkRules(t, policyRules(), policyWith)
	for _, message := range messages(t, "AttunePolicy") {
		assert.True(t, told[message], "no case for the rule: %s", message)
	}
}

func TestRulesOfDefaults(t *testing.T) {
	for _, kind := range []string{"AttuneDefaults", "AttuneNamespaceDefaults"} {
		t.Run(kind, func(t *testing.T) {
			shared := []rule{}
			for _, r := range policyRules() {
				if !strings.HasPrefix(r.field, "spec.targetRef") {
					shared = append(shared, r)
				}
			}
			told := checkRules(t, append(shared, defaultsRules()...), func(t *testing.T, spec string) *unstructured.Unstructured { return object(t, kind, spec) })
			for _, message := range messages(t, kind) {
				assert.True(t, told[message] || message == nameRule, "no case for the rule: %s", message)
			}
		})
	}
}

func TestRulesOfClusterPolicies(t *testing.T) {
	const serverless = "metricsSource.prometheus must not be set in an AttuneClusterPolicy"
	rules := []rule{
		kindRule,
		{"spec", []string{`{}`, `metricsSource: {historyWindow: 24h}`},
			[]string{fmt.Sprintf(prometheus, "http://prometheus.monitoring:9090")},
			serverless + ", which has no namespace for Secrets: set it in the AttuneDefaults"},
		{"spec.targetRef.selector", []string{`targetRef: {}`, `targetRef: {kind: Job}`, `targetRef: {selector: {matchLabels: {a: b}}}`},
			[]string{`targetRef: {selector: {}}`, `targetRef: {kind: Job, selector: {matchLabels: {}}}`},
			"targetRef.selector must not be empty: leave it out to target every workload, or set matchLabels, e.g. {tier: api}"},
		{"spec.namespaceSelector", []string{`namespaceSelector: {matchLabels: {a: b}}`, `namespaceSelector: {matchExpressions: [{key: a, operator: Exists}]}`},
			[]string{`namespaceSelector: {}`, `namespaceSelector: {matchLabels: {}}`},
			"namespaceSelector must not be empty: leave it out to select every namespace, or set matchLabels, e.g. {stage: production}"},
	}
	for _, r := range policyRules() {
		if !strings.HasPrefix(r.field, "spec.targetRef") && !strings.HasPrefix(r.field, "spec.metricsSource.prometheus") {
			rules = append(rules, r)
		}
	}
	told := checkRules(t, rules, func(t *testing.T, spec string) *unstructured.Unstructured {
		return object(t, "AttuneClusterPolicy", spec)
	})
	for _, message := range messages(t, "AttuneClusterPolicy") {
		assert.True(t, told[message] || strings.HasPrefix(message, "prometheus"), "no case for the rule: %s", message)
	}
}

const nameRule = "attune reads only the object named default: set metadata.name to default"

func TestOnlyDefaultMayBeNamed(t *testing.T) {
	c := newClient(t)
	for _, kind := range []string{"AttuneDefaults", "AttuneNamespaceDefaults"} {
		u := object(t, kind, `{paused: false}`)
		assert.NoError(t, c.Create(t.Context(), u.DeepCopy(), client.DryRunAll))
		u.SetName("defaults")
		err := c.Create(t.Context(), u, client.DryRunAll)
		assertOneCause(t, err, "<nil>", nameRule, kind)
	}
}

// messages are the sentences of a CRD's own rules.
func messages(t *testing.T, kind string) []string {
	t.Helper()
	var all []string
	schemas(t, crds(t)[kind], func(path string, s map[string]any) {
		rules, _ := s["x-kubernetes-validations"].([]any)
		for _, r := range rules {
			message, _ := r.(map[string]any)["message"].(string)
			require.NotEmpty(t, message, path)
			all = append(all, message)
		}
	})
	require.NotEmpty(t, all)
	return all
}

// TestTheOperatorAgrees: what the API server refuses, the operator refuses too (it also reads files that
// no API server has seen), and what is good is good in both.
func TestTheOperatorAgrees(t *testing.T) {
	resolve := func(spec string) error {
		p := &v1alpha1.AttunePolicy{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(policyWith(t, spec).Object, p); err != nil {
			return err
		}
		_, err := policy.Resolve(nil, nil, p)
		return err
	}
	needsAddress := "metricsSource.prometheus has no address for its other fields"
	for _, r := range policyRules() {
		for _, spec := range r.good {
			if err := resolve(spec); err != nil && !strings.Contains(err.Error(), needsAddress) {
				assert.NoError(t, err, spec)
			}
		}
		for _, spec := range r.bad {
			if spec == fmt.Sprintf(prometheus, "") {
				continue // Go cannot tell an empty address from none
			}
			assert.Error(t, resolve(spec), spec)
		}
	}
}
