package inside

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"attune.io/attune/test/await"
	"attune.io/attune/test/cluster/internal/spec"
)

// ControlSocket is the file over which the harness asks a pid 1 to start and
// stop processes: the cluster's in its directory, a node's in the node's.
const ControlSocket = "control.sock"

const stopGrace = 15 * time.Second

// patience with what a start waits for: as long as the cluster's owner waits for all of it, who says then what is missing. A
// VM whose files nothing has read yet takes more than two minutes until its API server is ready.
const patience = 5 * time.Minute

func serveControl(dir string, s *supervisor) error {
	// A relative name keeps the address short, however long the directory's is.
	if err := os.Chdir(dir); err != nil {
		return err
	}
	listener, err := net.Listen("unix", ControlSocket)
	if err != nil {
		return fmt.Errorf("listening for the harness: %w", err)
	}
	go func() { logf("control: %v", http.Serve(listener, controlHandler(s))) }()
	return nil
}

func controlHandler(s *supervisor) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /processes", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(s.list())
	})
	mux.HandleFunc("POST /start", func(w http.ResponseWriter, r *http.Request) {
		var p spec.Process
		if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
			answer(w, err)
			return
		}
		_, err := s.start(p, 0)
		answer(w, err)
	})
	mux.HandleFunc("POST /stop", func(w http.ResponseWriter, r *http.Request) {
		grace := stopGrace
		if r.FormValue("now") != "" {
			grace = 0
		}
		answer(w, s.stop(r.FormValue("name"), grace))
	})
	return mux
}

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
	}
}

// waitForAPI returns once the API server says it is ready.
func waitForAPI(dir string, limit time.Duration) error {
	client, err := apiClient(dir)
	if err != nil {
		return err
	}
	return await.Until(context.Background(), "the API server is ready (its log says why not)", limit, 50*time.Millisecond, func(context.Context) error {
		return get(client, spec.APIServer+"/readyz")
	})
}

func apiClient(dir string) (*http.Client, error) {
	ca, err := os.ReadFile(filepath.Join(dir, "pki", "ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("the cluster's CA holds no certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	return &http.Client{Transport: transport, Timeout: 5 * time.Second}, nil
}

func get(client *http.Client, url string) error {
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 200))
		return fmt.Errorf("%s: %s %s", url, response.Status, body)
	}
	return nil
}
