package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"

	"attune.io/attune/test/await"
	"attune.io/attune/test/cluster/internal/spec"
)

// PrometheusURL is where Prometheus answers inside the cluster, for pods and for HTTPClient.
const PrometheusURL = "http://" + spec.Prometheus

// StartPrometheus starts Prometheus and returns when it answers queries. What
// it stored before it was stopped is there again.
func (c *Cluster) StartPrometheus(ctx context.Context) error {
	config := c.dir + "/prometheus.yml"
	if err := writeYAML(config, c.prometheusConfig()); err != nil {
		return err
	}
	program, err := c.Tools.Find("prometheus")
	if err != nil {
		return err
	}
	err = c.startProcess(ctx, spec.Command("prometheus", program,
		"--config.file="+config,
		"--storage.tsdb.path="+c.tsdb(),
		"--storage.tsdb.retention.time=30d",
		"--web.listen-address="+spec.Prometheus))
	if err != nil {
		return err
	}
	return await.Until(ctx, "Prometheus", 0, pollEvery, func(ctx context.Context) error { return c.get(ctx, PrometheusURL+"/-/ready") })
}

// StopPrometheus ends Prometheus: queries are refused until it is started again.
func (c *Cluster) StopPrometheus(ctx context.Context) error {
	return c.stopProcess(ctx, "prometheus")
}

func (c *Cluster) tsdb() string { return c.dir + "/prometheus" }

// prometheusConfig scrapes every kubelet's cAdvisor and the containers' pressure.
func (c *Cluster) prometheusConfig() object {
	var kubelets []object
	for i := 1; i <= c.Nodes; i++ {
		kubelets = append(kubelets, object{
			"targets": []string{spec.NodeIP(i) + ":10250"},
			"labels":  object{"node": spec.NodeName(i)},
		})
	}
	pki := c.dir + "/pki/"
	return object{
		"global": object{"scrape_interval": "5s", "scrape_timeout": "5s"},
		"scrape_configs": []object{
			{
				"job_name":     "cadvisor",
				"scheme":       "https",
				"metrics_path": "/metrics/cadvisor",
				"tls_config": object{
					"ca_file":   pki + "ca.crt",
					"cert_file": pki + "kubelet-client.crt",
					"key_file":  pki + "kubelet-client.key",
				},
				"static_configs": kubelets,
			},
			{
				"job_name":       "pressure",
				"static_configs": []object{{"targets": []string{spec.Pressure}}},
			},
		},
	}
}

func (c *Cluster) get(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	client := c.HTTPClient()
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}

// BackfillInto gives a running cluster's Prometheus a past. Prometheus is away
// for a moment; what it has measured itself before the series' end is lost.
func (c *Cluster) BackfillInto(ctx context.Context, series []Series) error {
	if err := c.StopPrometheus(ctx); err != nil {
		return err
	}
	if err := c.backfill(ctx, series); err != nil {
		return err
	}
	return c.StartPrometheus(ctx)
}

// backfill imports the series while Prometheus is not running.
func (c *Cluster) backfill(ctx context.Context, series []Series) error {
	if len(series) == 0 {
		return nil
	}
	file, err := os.CreateTemp(c.dir, "backfill-*.om") // promtool maps it: no pipe
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if err := writeOpenMetrics(file, series); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	// Few large blocks: promtool reads the whole file once per block.
	return run(c.Command(ctx, "promtool", "tsdb", "create-blocks-from", "openmetrics",
		"--max-block-duration=168h", "--quiet", file.Name(), c.tsdb()))
}

// Query is what Prometheus answers to a query now: an error unless it is exactly one value.
func (c *Cluster) Query(ctx context.Context, query string) (float64, error) {
	client := c.HTTPClient()
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, PrometheusURL+"/api/v1/query?query="+url.QueryEscape(query), nil)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var answer struct {
		Error string
		Data  struct {
			Result []struct{ Value []any }
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return 0, err
	}
	if answer.Error != "" {
		return 0, errors.New(answer.Error)
	}
	if n := len(answer.Data.Result); n != 1 {
		return 0, fmt.Errorf("%s has %d answers", query, n)
	}
	return strconv.ParseFloat(answer.Data.Result[0].Value[1].(string), 64)
}
