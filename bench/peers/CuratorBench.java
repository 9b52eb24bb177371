import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Curator's InterProcessMutex and SimpleDistributedQueue under load: a thread and a client (a session) for each contender.
 *
 * <p>Arguments: lock or queue, connect string, base path, threads, locks or depth, hold ms, warm-up s, seconds. Prints "begin" when it starts to
 * count and one line of JSON at the end.
 */
public final class CuratorBench {
    private static volatile boolean measuring;
    private static volatile boolean over;
    private static final AtomicInteger violations = new AtomicInteger();
    private static final AtomicInteger errors = new AtomicInteger();
    private static volatile String firstError = "";

    private interface Worker {
        void once(int thread) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        String what = args[0];
        String connect = args[1];
        String base = args[2];
        int threads = Integer.parseInt(args[3]);
        int things = Integer.parseInt(args[4]);
        long holdMs = Long.parseLong(args[5]);
        double warmUp = Double.parseDouble(args[6]);
        double seconds = Double.parseDouble(args[7]);

        List<CuratorFramework> clients = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            CuratorFramework client = CuratorFrameworkFactory.newClient(connect, 60_000, 30_000, new ExponentialBackoffRetry(100, 5));
            client.start();
            client.blockUntilConnected();
            clients.add(client);
        }
        Worker worker = what.equals("lock") ? locks(clients, base, things, holdMs) : queue(clients, base, things);

        long[][] times = new long[threads][];
        Thread[] workers = new Thread[threads];
        for (int i = 0; i < threads; i++) {
            int me = i;
            workers[i] = new Thread(() -> times[me] = work(worker, me));
            workers[i].start();
        }
        Thread.sleep((long) (warmUp * 1000));
        System.out.println("begin");
        System.out.flush();
        long from = System.nanoTime();
        measuring = true;
        Thread.sleep((long) (seconds * 1000));
        measuring = false;
        double took = (System.nanoTime() - from) / 1e9;
        System.out.println("counted");
        System.out.flush();
        over = true;
        for (Thread thread : workers) thread.join();
        long[] all = Arrays.stream(times).flatMapToLong(Arrays::stream).sorted().toArray();
        System.out.println(String.format(Locale.ROOT,
            "{\"operations\":%d,\"seconds\":%f,\"p50\":%f,\"p99\":%f,\"errors\":%d,\"violations\":%d,\"firstError\":\"%s\"}",
            all.length, took, at(all, 0.5), at(all, 0.99), errors.get(), violations.get(), firstError.replaceAll("[^A-Za-z0-9 .:=/_-]", "")));
        System.out.flush();
        System.exit(0);
    }

    private static long[] work(Worker worker, int me) {
        long[] times = new long[1 << 16];
        int count = 0;
        while (!over) {
            long from = System.nanoTime();
            try {
                worker.once(me);
            } catch (Exception error) {
                errors.incrementAndGet();
                firstError = String.valueOf(error);
                continue;
            }
            if (!measuring) continue;
            if (count == times.length) times = Arrays.copyOf(times, count * 2);
            times[count++] = System.nanoTime() - from;
        }
        return Arrays.copyOf(times, count);
    }

    private static Worker locks(List<CuratorFramework> clients, String base, int locks, long holdMs) {
        InterProcessMutex[] mutexes = new InterProcessMutex[clients.size()];
        AtomicInteger[] holders = new AtomicInteger[locks];
        for (int i = 0; i < locks; i++) holders[i] = new AtomicInteger();
        for (int i = 0; i < mutexes.length; i++) mutexes[i] = new InterProcessMutex(clients.get(i), base + "/" + i % locks);
        return thread -> {
            mutexes[thread].acquire();
            try {
                if (holders[thread % locks].incrementAndGet() != 1) violations.incrementAndGet();
                if (holdMs > 0) TimeUnit.MILLISECONDS.sleep(holdMs);
            } finally {
                holders[thread % locks].decrementAndGet();
                mutexes[thread].release();
            }
        };
    }

    /** Each consumer pushes a message and takes the first one, so that the depth stays; no message may come twice. */
    private static Worker queue(List<CuratorFramework> clients, String base, int depth) throws Exception {
        SimpleDistributedQueue[] queues = new SimpleDistributedQueue[clients.size()];
        for (int i = 0; i < queues.length; i++) queues[i] = new SimpleDistributedQueue(clients.get(i), base);
        AtomicLong next = new AtomicLong();
        Set<String> seen = ConcurrentHashMap.newKeySet();
        for (int i = 0; i < depth; i++) queues[0].offer(Long.toString(next.incrementAndGet()).getBytes(StandardCharsets.UTF_8));
        return thread -> {
            queues[thread].offer(Long.toString(next.incrementAndGet()).getBytes(StandardCharsets.UTF_8));
            byte[] message = queues[thread].poll();
            if (message == null || !seen.add(new String(message, StandardCharsets.UTF_8))) violations.incrementAndGet();
        };
    }

    private static double at(long[] sorted, double q) {
        return sorted.length == 0 ? 0 : sorted[Math.min(sorted.length - 1, (int) (sorted.length * q))] / 1e6;
    }
}
