package monitoring

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/template"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func alerts(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(chart+"alerts/attune.yaml", false, model.UTF8Validation, promQL, slog.New(slog.DiscardHandler))
	require.Empty(t, errs)
	require.Len(t, groups.Groups, 1)
	return groups.Groups[0].Rules
}

// TestAlertsAreWhole: each says since when, how bad, what, and where to read on, and is about metrics that the operator has.
func TestAlertsAreWhole(t *testing.T) {
	os.Getenv("ATTUNE_INPUTS") // the digest of what is read outside of this module, so that Go's test cache sees a change
	about, err := os.ReadFile(chart + "Chart.yaml")
	require.NoError(t, err)
	home := regexp.MustCompile(`(?m)^home: (.*)$`).FindStringSubmatch(string(about))
	require.NotNil(t, home)
	operator := known(t)
	for _, rule := range alerts(t) {
		t.Run(rule.Alert, func(t *testing.T) {
			assert.Positive(t, rule.For)
			assert.Equal(t, []string{"severity"}, slices.Collect(maps.Keys(rule.Labels)))
			assert.Contains(t, []string{"critical", "warning"}, rule.Labels["severity"])
			assert.Equal(t, []string{"description", "runbook_url", "summary"}, slices.Sorted(maps.Keys(rule.Annotations)))
			assert.Equal(t, home[1]+"/docs/runbook.md#"+strings.ToLower(rule.Alert), rule.Annotations["runbook_url"])
			assertKnown(t, operator, rule.Expr)
			for _, text := range rule.Annotations {
				for _, found := range regexp.MustCompile(`\$labels\.([a-z_]+)`).FindAllStringSubmatch(text, -1) {
					assert.Regexp(t, `by \([^)]*\b`+found[1]+`\b`, rule.Expr, "the alert has no such label")
				}
			}
		})
	}
}

// TestRunbook: each alert has a section, each section an alert, in the same order, and says the same four things.
func TestRunbook(t *testing.T) {
	page, err := os.ReadFile("../../../docs/runbook.md")
	require.NoError(t, err)
	var written, wanted []string
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		written = append(written, title)
		var parts []string
		for _, found := range regexp.MustCompile(`(?m)^\*\*([A-Za-z ]+)\.\*\* \S`).FindAllStringSubmatch(text, -1) {
			parts = append(parts, found[1])
		}
		assert.Equal(t, []string{"It means", "Look", "Do", "It ends"}, parts, title)
		assert.Contains(t, text, "```", "%s: no command", title)
	}
	for _, rule := range alerts(t) {
		wanted = append(wanted, rule.Alert)
	}
	assert.Equal(t, wanted, written)
}

// healthy is an operator at work for six hours, a sample a minute. It meets what passes by itself, and little that does not.
const healthy = `
leader_election_master_status{name="attune.attune.io",instance="a"} 1x360
leader_election_master_status{name="attune.attune.io",instance="b"} 0x360
attune_admission_total{result="Seeded"} 0+30x360
attune_admission_total{result="NoRecommendation"} 0+5x360
attune_admission_duration_seconds_bucket{le="0.001"} 0+34x360
attune_admission_duration_seconds_bucket{le="0.1"} 0+35x360
attune_admission_duration_seconds_bucket{le="1"} 0+35x360
attune_admission_duration_seconds_bucket{le="+Inf"} 0+35x360
attune_admission_duration_seconds_count 0+35x360
apiserver_admission_webhook_fail_open_count{name="pods.attune.io"} 0x100 2x259
apiserver_admission_webhook_rejection_count{name="settings.attune.io",error_type="calling_webhook_error"} 0x60 1x299
apiserver_admission_webhook_rejection_count{name="settings.attune.io",error_type="no_error"} 0+1x360
attune_certificate_expiry_timestamp_seconds{certificate="webhook"} 2592000x360
attune_certificate_expiry_timestamp_seconds{certificate="metrics"} 315360000x360
attune_webhook_dropped_total{reason="Busy"} 0x100 4x259
attune_webhook_dropped_total{reason="Slow"} 0+0.5x360
attune_connections_dropped_total{port="metrics"} 0+0.5x360
certwatcher_read_certificate_errors_total 0x150 1x209
attune_usage_samples_total{source="embedded"} 0+600x360
attune_kubelet_scrapes_total{result="success"} 0+10x360
attune_kubelet_scrapes_total{result="failed"} 0x100 12x259
attune_prometheus_query_duration_seconds_count{query_type="usage"} 0+4x360
attune_prometheus_query_errors_total{query_type="usage"} 0x60 3x299
attune_prometheus_query_errors_total{namespace="shop",query_type="slo"} 0+1x360
attune_confidence{namespace="shop",kind="Deployment",workload="web",container="app"} 0.9x360
attune_pods{namespace="shop"} 3x360
attune_usage_near_left 0x90 4x10 0x259
attune_resize_total{namespace="shop",kind="Deployment",workload="web",resource="cpu",result="success"} 0+0.5x360
attune_resize_total{namespace="shop",kind="Deployment",workload="web",resource="memory",result="failed"} 0x100 3x100 4x158
attune_reverts_total{namespace="shop",kind="Deployment",workload="web",reason="throttle"} _x60 1x100 2x199
attune_reverts_pending{namespace="shop",kind="Deployment",workload="web"} _x60 1x20 _x279
attune_pass_incomplete_total{what="node"} 0x60 15x299
attune_pass_incomplete_total{what="unsettled"} 0+0.25x360
attune_reconcile_errors_total{error_type="Conflict"} 0+3x360
attune_reconcile_errors_total{error_type="Unreachable"} 0x60 40x299
attune_reconcile_errors_total{error_type="Other"} 0+0.5x360
attune_node_overcommitted{node="node-1",resource="cpu"} 0x100 1x30 0x229
up 1x360
`

// troubles are what differs from the healthy operator, and the alert that it raises; none where fires is empty.
var troubles = []struct {
	name   string
	series string
	// gone are metrics that nobody shows.
	gone  []string
	fires string
	// of are labels that the alert has.
	of map[string]string
}{
	{name: "nothing"},
	{name: "no replica leads", fires: "AttuneNoLeader", series: `leader_election_master_status{name="attune.attune.io",instance="a"} 1x60 0x299`},
	{name: "the controller is gone", fires: "AttuneNoLeader", gone: []string{"leader_election_master_status"}},
	{name: "the leader changes", series: `
leader_election_master_status{name="attune.attune.io",instance="a"} 1x60 0x299
leader_election_master_status{name="attune.attune.io",instance="b"} 0x66 1x293`},
	{name: "the webhook is gone", fires: "AttuneWebhookMissing", gone: []string{"attune_admission_duration_seconds_count", "attune_admission_duration_seconds_bucket", "attune_admission_total"}},
	{name: "the webhook is away for some minutes", series: "attune_admission_duration_seconds_count 0+35x60 _x8 0+35x290"},
	{name: "a defect", fires: "AttuneWebhookFailing", series: `attune_admission_total{result="Failed"} 0+1x360`},
	{name: "the first defect ever", fires: "AttuneWebhookFailing", series: `attune_admission_total{result="Failed"} _x100 1x259`},
	{name: "six workloads were harmed before the operator was scraped", series: strings.ReplaceAll(once("batch", 6), "_x100 1x259", "1x360")},
	// Without a leader for longer than AttuneNoLeader waits; old events are no news when it is back.
	{name: "the leader alone is not scraped", fires: "AttuneNoLeader", series: `
leader_election_master_status{name="attune.attune.io",instance="a"} 1x100 _x20 1x239
attune_reverts_total{namespace="shop",kind="Deployment",workload="web",reason="throttle"} 7x100 _x20 7x239
attune_resize_total{namespace="shop",kind="Deployment",workload="web",resource="cpu",result="success"} 9x100 _x20 9x239
attune_resize_total{namespace="shop",kind="Deployment",workload="web",resource="memory",result="failed"} 7x100 _x20 7x239`},
	{name: "a replica of the webhook alone is not scraped", series: `
attune_admission_total{result="Failed"} 7x100 _x20 7x239
attune_admission_duration_seconds_count 0+35x100 _x20 4235+35x239
attune_admission_duration_seconds_count{instance="b"} 0+35x360`},
	{name: "a defect of long ago", series: `attune_admission_total{result="Failed"} 7x360`},
	{name: "slow reviews", fires: "AttuneWebhookSlow", series: `
attune_admission_duration_seconds_bucket{le="0.001"} 0+10x360
attune_admission_duration_seconds_bucket{le="0.1"} 0+30x360`},
	{name: "slow reviews for some minutes", series: `
attune_admission_duration_seconds_bucket{le="0.001"} 0+34x60 2040x3 2074+34x295
attune_admission_duration_seconds_bucket{le="0.1"} 0+35x60 2100x3 2135+35x295`},
	{name: "no reviews", series: `
attune_admission_duration_seconds_bucket{le="0.001"} 9x360
attune_admission_duration_seconds_bucket{le="0.1"} 9x360
attune_admission_duration_seconds_bucket{le="1"} 9x360
attune_admission_duration_seconds_bucket{le="+Inf"} 9x360
attune_admission_duration_seconds_count 9x360`},
	{name: "the API server trusts another authority", fires: "AttuneWebhookUnreachable", of: map[string]string{"name": "pods.attune.io"},
		series: `apiserver_admission_webhook_fail_open_count{name="pods.attune.io"} 0+1x360`},
	{name: "policies cannot be written", fires: "AttuneWebhookUnreachable", of: map[string]string{"name": "settings.attune.io"},
		series: `apiserver_admission_webhook_rejection_count{name="settings.attune.io",error_type="calling_webhook_error"} 0+0.2x360`},
	{name: "the API server cannot use the webhook, where pods are created seldom", fires: "AttuneWebhookUnreachable", of: map[string]string{"name": "pods.attune.io"},
		series: `apiserver_admission_webhook_fail_open_count{name="pods.attune.io"} ` + seldom},
	{name: "the first calls that ever failed", fires: "AttuneWebhookUnreachable", of: map[string]string{"name": "pods.attune.io"},
		series: `apiserver_admission_webhook_fail_open_count{name="pods.attune.io"} _x100 3x19 4x239`},
	{name: "the first policies that ever failed", fires: "AttuneWebhookUnreachable", of: map[string]string{"name": "settings.attune.io"},
		series: `apiserver_admission_webhook_rejection_count{name="settings.attune.io",error_type="calling_webhook_error"} _x100 3x19 4x239`},
	{name: "the API server is scraped from now on", series: `
apiserver_admission_webhook_fail_open_count{name="pods.attune.io"} _x100 3x19 4x239
apiserver_admission_webhook_rejection_count{name="settings.attune.io",error_type="calling_webhook_error"} _x100 3x19 4x239
up _x100 1x259`},
	{name: "the replicas of the webhook are replaced", series: `
apiserver_admission_webhook_fail_open_count{name="pods.attune.io"} _x100 40x2 60x256
apiserver_admission_webhook_rejection_count{name="settings.attune.io",error_type="calling_webhook_error"} _x100 1x259`},
	{name: "a replica's certificate is not renewed", fires: "AttuneCertificateExpires", of: map[string]string{"certificate": "webhook"}, series: `
attune_certificate_expiry_timestamp_seconds{certificate="webhook",instance="b"} 604800x360`},
	{name: "a certificate is renewed late", series: `
attune_certificate_expiry_timestamp_seconds{certificate="webhook"} 604800x30 8000000x329`},
	{name: "a certificate ends", fires: "AttuneCertificateExpired", of: map[string]string{"certificate": "webhook"}, series: `
attune_certificate_expiry_timestamp_seconds{certificate="webhook"} 100x360`},
	{name: "a flood of the webhook", fires: "AttuneCallersTurnedAway", of: map[string]string{"reason": "Busy"}, series: `attune_webhook_dropped_total{reason="Busy"} 0+2x360`},
	{name: "a flood of the metrics", fires: "AttuneCallersTurnedAway", of: map[string]string{"port": "metrics"}, series: `attune_connections_dropped_total{port="metrics"} 0+2x360`},
	{name: "a certificate that is not there", fires: "AttuneCertificateUnreadable", series: `certwatcher_read_certificate_errors_total 0x100 0+6x259`},
	{name: "samples stop", fires: "AttuneUsageStale", series: `attune_usage_samples_total{source="embedded"} 0+600x60 36000x299`},
	{name: "samples stop for some minutes", series: `attune_usage_samples_total{source="embedded"} 0+600x60 36000x25 36600+600x273`},
	{name: "samples at the longest interval", series: slowly(10)},
	{name: "there never was a sample", fires: "AttuneUsageStale", gone: []string{"attune_usage_samples_total"}},
	{name: "a Prometheus server with the longest step", gone: []string{"attune_kubelet_scrapes_total"}, series: hourly(5, 60, 130, 180, 250, 300)},
	{name: "a Prometheus server with the longest step has nothing more to say", fires: "AttuneUsageStale", gone: []string{"attune_kubelet_scrapes_total"},
		series: hourly(5, 60, 130)},
	{name: "a Prometheus server never had anything to say", fires: "AttuneUsageStale", gone: []string{"attune_kubelet_scrapes_total", "attune_usage_samples_total"}},
	{name: "pods run again in the middle of the longest step", gone: []string{"attune_kubelet_scrapes_total"},
		series: hourly(5, 60, 180, 245, 300) + `attune_pods{namespace="shop"} 3x80 0x43 3x235`},
	{name: "the first pods run in the middle of the longest step", gone: []string{"attune_kubelet_scrapes_total"},
		series: hourly(180, 245, 300) + `attune_pods{namespace="shop"} _x125 3x234`},
	// The new leader knows from checkpoints what the old one read.
	{name: "the leader changes in the middle of the longest step", gone: []string{"attune_kubelet_scrapes_total"}, series: `
attune_usage_samples_total{source="embedded"} _x360
attune_usage_newest_sample_timestamp_seconds{source="prometheus"} 0x59 3600x30 _x269
attune_usage_newest_sample_timestamp_seconds{source="prometheus",instance="b"} _x129 7200x59 10800x59 14400x59 18000x59
attune_usage_samples_total{source="prometheus"} 9x59 18x30 _x269
attune_usage_samples_total{source="prometheus",instance="b"} _x129 9x59 18x59 27x59 36x59
attune_pods{namespace="shop"} 3x90 _x269
attune_pods{namespace="shop",instance="b"} _x92 3x267`},
	{name: "kubelets are scraped, and policies name servers with the longest step", series: hourly(5, 60, 130, 180, 250, 300) + `attune_usage_samples_total{source="embedded"} 0x360`},
	{name: "a Prometheus server has nothing to say, since no pod runs", gone: []string{"attune_kubelet_scrapes_total"}, series: `
attune_usage_samples_total{source="embedded"} _x360
attune_usage_samples_total{source="prometheus"} 0+600x60 36000x299
attune_usage_newest_sample_timestamp_seconds{source="prometheus"} 0+60x60 3600x299
attune_pods{namespace="shop"} 3x60 0x299`},
	{name: "pods run again after a long time", series: `
attune_usage_samples_total{source="embedded"} 0x120 0+600x239
attune_pods{namespace="shop"} 0x100 3x259`},
	{name: "no sample and nothing to size", gone: []string{"attune_usage_samples_total", "attune_confidence", "attune_pods"}},
	{name: "a tenth of the kubelets fails", fires: "AttuneUsageSourceFailing", series: `attune_kubelet_scrapes_total{result="failed"} 0+1.2x360`},
	{name: "the server fails", fires: "AttuneUsageSourceFailing", series: `attune_prometheus_query_errors_total{query_type="usage"} 0+4x360`},
	{name: "pods without room", fires: "AttunePodsNotFollowed", of: map[string]string{"namespace": "shop"}, series: `attune_usage_recent_refused{namespace="shop"} 40x360`},
	{name: "pods near their limits without room", fires: "AttunePodsNotFollowed", series: `attune_usage_near_left 12x360`},
	{name: "a workload is harmed again and again", fires: "AttuneRevertsPileUp", of: map[string]string{"namespace": "shop"},
		series: `attune_reverts_total{namespace="shop",kind="Deployment",workload="web",reason="throttle"} 0+0.2x360`},
	{name: "six workloads are harmed once", fires: "AttuneRevertsPileUp", of: map[string]string{"namespace": "batch"}, series: once("batch", 6)},
	{name: "three workloads are harmed once", series: once("batch", 3)},
	{name: "no room to go back", fires: "AttuneRevertPending", of: map[string]string{"workload": "web"},
		series: `attune_reverts_pending{namespace="shop",kind="Deployment",workload="web"} _x60 2x299`},
	{name: "resizes fail", fires: "AttuneResizesFailing", of: map[string]string{"namespace": "shop"},
		series: `attune_resize_total{namespace="shop",kind="Deployment",workload="web",resource="memory",result="failed"} 0+0.4x360`},
	{name: "few of many resizes fail", series: `
attune_resize_total{namespace="shop",kind="Deployment",workload="web",resource="cpu",result="success"} 0+4x360
attune_resize_total{namespace="shop",kind="Deployment",workload="web",resource="memory",result="failed"} 0+0.4x360`},
	{name: "nodes cannot be read", fires: "AttuneResizesBlocked", of: map[string]string{"what": "nodes"}, series: `attune_pass_incomplete_total{what="nodes"} 0+1x360`},
	{name: "the nodes of one workload cannot be read", fires: "AttuneResizesBlocked", of: map[string]string{"what": "node"}, series: unread(58)},
	{name: "the nodes of one workload cannot be read for a while", series: unread(4)},
	{name: "no workload is settled", fires: "AttuneResizesBlocked", of: map[string]string{"what": "unsettled"}, series: `attune_pass_incomplete_total{what="unsettled"} 0+1x360`},
	{name: "a right is missing", fires: "AttuneLoopFailing", of: map[string]string{"error_type": "Forbidden"}, series: `attune_reconcile_errors_total{error_type="Forbidden"} 0+2x360`},
	{name: "a full node", fires: "AttuneNodeOvercommitted", of: map[string]string{"node": "node-1", "resource": "cpu"}, series: `attune_node_overcommitted{node="node-1",resource="cpu"} 0x60 1x299`},
}

// once are workloads of a namespace, each with its first revert.
func once(namespace string, workloads int) (series string) {
	for i := range workloads {
		series += fmt.Sprintf("attune_reverts_total{namespace=%q,kind=\"Deployment\",workload=\"web-%d\",reason=\"oomkill\"} _x100 1x259\n", namespace, i)
	}
	return series
}

// slowly are samples that come at once, so many minutes apart.
func slowly(minutes int) string {
	series := `attune_usage_samples_total{source="embedded"} `
	for i := range 360 / minutes {
		series += fmt.Sprintf("%dx%d ", 6000*i, minutes-1)
	}
	return series + "\n"
}

// hourly is what a Prometheus server gives for steps of an hour, the longest, by the minutes at which it is asked. It is the
// source in the place of the kubelets.
func hourly(asked ...int) string {
	samples, newest := fmt.Sprintf("_x%d ", asked[0]), fmt.Sprintf("_x%d ", asked[0])
	for i, at := range asked {
		until := 360
		if i+1 < len(asked) {
			until = asked[i+1]
		}
		samples += fmt.Sprintf("%dx%d ", 9*(i+1), until-at-1)
		newest += fmt.Sprintf("%dx%d ", at/60*3600, until-at-1)
	}
	return `
attune_usage_samples_total{source="embedded"} _x360
attune_usage_samples_total{source="prometheus"} ` + samples + `
attune_usage_newest_sample_timestamp_seconds{source="prometheus"} ` + newest + "\n"
}

// seldom is a failure in half an hour, and never a success.
const seldom = "_x30 1x29 2x29 3x29 4x29 5x29 6x29 7x29 8x29 9x29 10x29 11x29"

// unread is one workload whose passes do not read something: eight within minutes, then so many more, one in five minutes.
func unread(more int) string {
	series := `attune_pass_incomplete_total{what="node"} 0x60 `
	for i := range more {
		series += fmt.Sprintf("%dx4 ", 8+i)
	}
	return series + fmt.Sprintf("%dx%d\n", 8+more, 298-5*more)
}

// TestAlerts: each trouble raises its alert and no other one, and every alert has a trouble.
func TestAlerts(t *testing.T) {
	operator, rules := known(t), alerts(t)
	raised := map[string]bool{}
	for _, trouble := range troubles {
		raised[trouble.fires] = true
		t.Run(trouble.name, func(t *testing.T) {
			db := promqltest.LoadedStorage(t, "load 1m\n"+changed(t, operator, trouble.series, trouble.gone))
			for _, rule := range rules {
				query, err := engine.NewRangeQuery(t.Context(), db, nil, rule.Expr, start, start.Add(6*time.Hour), time.Minute)
				require.NoError(t, err)
				result := query.Exec(t.Context())
				require.NoError(t, result.Err)
				firing := lasting(result.Value.(promql.Matrix), time.Duration(rule.For))
				if rule.Alert != trouble.fires {
					assert.Empty(t, firing, rule.Alert)
					continue
				}
				require.Len(t, firing, 1, rule.Alert)
				for name, value := range trouble.of {
					assert.Equal(t, value, firing[0].Metric.Get(name), rule.Alert)
				}
				assertTexts(t, rule, firing[0])
			}
		})
	}
	for _, rule := range rules {
		assert.True(t, raised[rule.Alert], "nothing raises %s", rule.Alert)
	}
}

// changed is the healthy operator with other series in the place of its own. Those without a target are of target a.
func changed(t *testing.T, operator exposed, series string, gone []string) string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(healthy + series) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		metric, _, err := promQL.ParseSeriesDesc(line)
		require.NoError(t, err, line)
		name := metric.Get(labels.MetricName)
		require.Contains(t, operator.labels, name)
		for _, label := range namesOf(metric) {
			require.Contains(t, append([]string{"instance"}, operator.labels[name]...), label, line)
		}
		values := strings.TrimSpace(line[strings.LastIndexByte(line, '}')+1:])
		if metric.Len() == 1 {
			_, values, _ = strings.Cut(line, " ")
		}
		if !metric.Has("instance") {
			metric = labels.NewBuilder(metric).Set("instance", "a").Labels()
		}
		all[metric.String()] = metric.String() + " " + values
		if slices.Contains(gone, name) {
			delete(all, metric.String())
		}
	}
	return "  " + strings.Join(slices.Sorted(maps.Values(all)), "\n  ") + "\n"
}

// lasting are the series, with their last point, that had a value at every minute for as long as this.
func lasting(of promql.Matrix, long time.Duration) (firing []promql.Sample) {
	for _, series := range of {
		since := int64(0)
		for i, point := range series.Floats {
			if i == 0 || point.T-series.Floats[i-1].T > time.Minute.Milliseconds() {
				since = point.T
			}
			if point.T-since >= long.Milliseconds() {
				firing = append(firing, promql.Sample{Metric: series.Metric, F: point.F, T: point.T})
				break
			}
		}
	}
	return firing
}

// assertTexts: the texts of an alert name what it is about.
func assertTexts(t *testing.T, rule rulefmt.Rule, firing promql.Sample) {
	t.Helper()
	data := template.AlertTemplateData(firing.Metric.Map(), nil, "", firing)
	for name, text := range rule.Annotations {
		expander := template.NewTemplateExpander(t.Context(), "{{$labels := .Labels}}{{$value := .Value}}"+text, rule.Alert, data, model.Time(firing.T), nil, nil, nil)
		said, err := expander.Expand()
		require.NoError(t, err, name)
		assert.NotContains(t, said, "{{")
		assert.NotContains(t, said, "  ", name)
		t.Logf("%s: %s", name, said)
	}
}

// TestOneTroubleIsOneAlert: between failures that come seldom the alert does not end and begin again.
func TestOneTroubleIsOneAlert(t *testing.T) {
	rules := alerts(t)
	rule := rules[slices.IndexFunc(rules, func(r rulefmt.Rule) bool { return r.Alert == "AttuneWebhookUnreachable" })]
	db := promqltest.LoadedStorage(t, "load 1m\n"+changed(t, known(t), `apiserver_admission_webhook_fail_open_count{name="pods.attune.io"} `+seldom, nil))
	query, err := engine.NewRangeQuery(t.Context(), db, nil, rule.Expr, start, start.Add(6*time.Hour), time.Minute)
	require.NoError(t, err)
	result := query.Exec(t.Context())
	require.NoError(t, result.Err)
	matrix := result.Value.(promql.Matrix)
	at := slices.IndexFunc(matrix, func(s promql.Series) bool { return s.Metric.Get("name") == "pods.attune.io" })
	require.NotEqual(t, -1, at)
	points, gaps := matrix[at].Floats, 0
	for i := range points[1:] {
		if gap := time.Duration(points[i+1].T-points[i].T) * time.Millisecond; gap > time.Minute {
			gaps++
			assert.Less(t, gap+time.Duration(rule.For), time.Duration(rule.KeepFiringFor))
		}
	}
	assert.Positive(t, gaps, "keep_firing_for is not needed")
}
