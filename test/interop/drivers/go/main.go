// The lock of go-zookeeper, told by lines what to do: test/interop/peer.ts says how. One session, and a goroutine for each thing.
//
// Arguments: connect string, session timeout in ms.
package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

type order struct {
	id, verb string
	args     []string
}

var saying sync.Mutex

func answer(fields ...string) {
	saying.Lock()
	defer saying.Unlock()
	fmt.Println(strings.Join(fields, "\t"))
}

func main() {
	timeoutMs, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	conn, events, err := zk.Connect(strings.Split(os.Args[1], ","), time.Duration(timeoutMs)*time.Millisecond,
		zk.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		log.Fatal(err)
	}
	for event := range events {
		if event.State == zk.StateHasSession {
			break
		}
	}
	answer("0", "ok")
	things := map[string]chan order{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		orders, known := things[fields[1]]
		if !known {
			orders = make(chan order, 16)
			things[fields[1]] = orders
			go work(conn, orders)
		}
		orders <- order{id: fields[0], verb: fields[2], args: fields[3:]}
	}
}

func work(conn *zk.Conn, orders chan order) {
	var lock *zk.Lock
	for o := range orders {
		var err error
		switch o.verb {
		case "make":
			lock = zk.NewLock(conn, o.args[1], zk.WorldACL(zk.PermAll))
		case "acquire":
			err = lock.Lock()
		case "release":
			err = lock.Unlock()
		default:
			err = fmt.Errorf("no such verb: %s", o.verb)
		}
		if err != nil {
			answer(o.id, "error", strings.Join(strings.Fields(err.Error()), " "))
		} else {
			answer(o.id, "ok")
		}
	}
}
